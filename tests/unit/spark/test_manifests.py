"""The manifests for the Kubernetes Spark operator, against the shape of its v1beta2 objects, and against our jobs.

The shape is what we use of it and know of it; a field with another name would be pruned by the API server in silence.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
MANIFESTS = sorted((ROOT / "infra" / "spark").glob("*.yaml"))

POD = {
    "cores": int,
    "coreLimit": str,
    "memory": str,
    "memoryOverhead": str,
    "serviceAccount": str,
    "labels": dict,
    "env": list,
    "secrets": [{"name": str, "path": str, "secretType": ("Generic", "GCPServiceAccount", "HadoopDelegationToken")}],
    "volumeMounts": list,
    "nodeSelector": dict,
}
SPEC = {
    "type": ("Java", "Scala", "Python", "R"),
    "mode": ("cluster", "client", "in-cluster-client"),
    "sparkVersion": str,
    "image": str,
    "imagePullPolicy": ("Always", "IfNotPresent", "Never"),
    "mainApplicationFile": str,
    "arguments": [str],
    "sparkConf": dict,
    "hadoopConf": dict,
    "volumes": list,
    "deps": dict,
    "timeToLiveSeconds": int,
    "restartPolicy": {
        "type": ("Never", "OnFailure", "Always"),
        "onFailureRetries": int,
        "onFailureRetryInterval": int,
        "onSubmissionFailureRetries": int,
        "onSubmissionFailureRetryInterval": int,
    },
    "driver": POD,
    "executor": {**POD, "instances": int},
}
SCHEDULE = {
    "schedule": str,
    "concurrencyPolicy": ("Allow", "Forbid", "Replace"),
    "suspend": bool,
    "successfulRunHistoryLimit": int,
    "failedRunHistoryLimit": int,
    "template": SPEC,
}
KINDS = {"SparkApplication": SPEC, "ScheduledSparkApplication": SCHEDULE}
REQUIRED = ("type", "sparkVersion", "mainApplicationFile", "driver", "executor")


def faults(value: Any, shape: Any, path: str) -> list[str]:
    """Where a value is not of a shape: a type, words of which it is one, a list of one shape, or fields."""
    if isinstance(shape, type):
        return [] if type(value) is shape else [f"{path} is {value!r}, and no {shape.__name__}"]
    if isinstance(shape, tuple):
        return [] if value in shape else [f"{path} is {value!r}, and none of {shape}"]
    if isinstance(shape, list):
        return [fault for at, one in enumerate(value) for fault in faults(one, shape[0], f"{path}[{at}]")]
    unknown = [f"{path}.{name} is no field" for name in value if name not in shape]
    return unknown + [
        fault for name, one in value.items() if name in shape for fault in faults(one, shape[name], f"{path}.{name}")
    ]


def loaded(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def spec_of(manifest: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = manifest["spec"]
    return spec["template"] if manifest["kind"] == "ScheduledSparkApplication" else spec


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_a_manifest_has_the_shape_of_its_kind(path: Path):
    manifest = loaded(path)
    assert manifest["apiVersion"] == "sparkoperator.k8s.io/v1beta2"
    assert faults(manifest["spec"], KINDS[manifest["kind"]], "spec") == []
    assert [name for name in REQUIRED if name not in spec_of(manifest)] == []


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_a_manifest_starts_a_job_that_we_have_with_arguments_that_it_knows(path: Path):
    spec = spec_of(loaded(path))
    job = ROOT / "spark" / "jobs" / Path(spec["mainApplicationFile"]).name
    # Texts of the program and of what jobs share: so no Spark is needed to look.
    sources = [job, ROOT / "spark" / "pyspark_jetstream" / "jobs" / "session.py"]
    known = {
        node.value
        for source in sources
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert [word for word in spec["arguments"] if word.startswith("--") and word not in known] == []


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_a_manifest_gives_the_credentials_to_driver_and_executors_as_files(path: Path):
    spec = spec_of(loaded(path))
    assert spec["driver"]["secrets"] == spec["executor"]["secrets"]
    [mount] = spec["driver"]["secrets"]
    assert f"credsFile={mount['path']}/user.creds" in spec["arguments"]


def test_an_archive_is_filled_by_one_run_at_a_time():
    assert loaded(ROOT / "infra" / "spark" / "archive.yaml")["spec"]["concurrencyPolicy"] == "Forbid"

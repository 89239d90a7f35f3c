"""func.yaml is what `kn func` reads: the shape is that of its schema for specVersion 0.36.0.

The schema closes every object, so a misspelt key is an error there, and here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]

QUANTITY = re.compile(r"[+-]?[0-9.]+([eEinumkKMGTP]*[-+]?[0-9]*)")
LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
ENVIRONMENT = [{"name": re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*"), "value": str}]
VOLUME = {"path": str, "secret": str, "configMap": str, "persistentVolumeClaim": dict, "emptyDir": dict}

# A type, a pattern, a set of allowed values, a list of one shape, or an object closed over its keys.
SHAPE: dict[str, Any] = {
    "specVersion": re.compile(r"0\.36\.0"),
    "name": re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"),
    "domain": str,
    "runtime": {"python"},
    "registry": str,
    "registryInsecure": bool,
    "image": str,
    "namespace": str,
    "deployer": {"knative", "raw", "keda"},
    "created": datetime,
    "invoke": {"http", "cloudevent"},
    "build": {
        "git": {"url": str, "revision": str, "contextDir": str},
        "builder": {"pack", "s2i"},
        "builderImages": dict,
        "buildpacks": [str],
        "buildEnvs": ENVIRONMENT,
        "pvcSize": str,
        "remoteStorageClass": str,
        "baseImage": str,
        "volumes": [{"hostPath": str, "path": str}],
    },
    "run": {"volumes": [VOLUME], "envs": ENVIRONMENT, "startTimeout": int},
    "deploy": {
        "namespace": str,
        "image": str,
        "annotations": dict,
        "options": {
            "scale": {
                "min": int,
                "max": int,
                "metric": {"concurrency", "rps"},
                "target": (int, float),
                "utilization": (int, float),
            },
            "resources": {
                "requests": {"cpu": QUANTITY, "memory": QUANTITY},
                "limits": {"cpu": QUANTITY, "memory": QUANTITY, "concurrency": int},
            },
        },
        "labels": [{"key": LABEL_KEY, "value": LABEL_VALUE}],
        "healthEndpoints": {"liveness": str, "readiness": str},
        "subscriptions": [{"source": str, "filters": dict}],
        "serviceAccountName": str,
        "imagePullSecret": str,
        "managementDisabled": bool,
    },
}


def faults(value: object, shape: Any, path: str = "func.yaml") -> Iterator[str]:
    match shape:
        case dict():
            if not isinstance(value, dict):
                yield f"{path}: not an object"
                return
            yield from (f"{path}.{key}: unknown key" for key in value if key not in shape)
            for key in value.keys() & shape.keys():
                yield from faults(value[key], shape[key], f"{path}.{key}")
        case [item]:
            if not isinstance(value, list):
                yield f"{path}: not a list"
                return
            for number, entry in enumerate(value):
                yield from faults(entry, item, f"{path}[{number}]")
        case re.Pattern():
            if not isinstance(value, str) or not shape.fullmatch(value):
                yield f"{path}: {value!r} is not like {shape.pattern}"
        case set():
            if value not in shape:
                yield f"{path}: {value!r} is none of {sorted(shape)}"
        case _:
            if not isinstance(value, shape):
                yield f"{path}: {value!r} is no {shape}"


@pytest.fixture
def func() -> dict[str, Any]:
    document = yaml.safe_load((ROOT / "func.yaml").read_text(encoding="utf-8"))
    assert isinstance(document, dict)
    return document


def test_func_yaml_has_the_shape_of_the_schema(func):
    assert list(faults(func, SHAPE)) == []


@pytest.mark.parametrize("field", ["specVersion", "created", "name", "runtime"])
def test_func_yaml_says_what_func_refuses_to_do_without(func, field):
    assert func[field]


def test_the_function_gets_raw_http_since_only_so_it_can_answer_202(func):
    assert func["invoke"] == "http"


def test_the_image_answers_as_receive_unless_told_otherwise(func):
    assert {"name": "FUNCTION_TARGET", "value": "receive"} in func["run"]["envs"]


def test_it_scales_from_zero_by_requests_in_flight(func):
    assert func["deploy"]["options"]["scale"] == {"min": 0, "metric": "concurrency", "target": 100}
    assert func["deploy"]["options"]["resources"]["limits"]["concurrency"] == 0


def test_the_probes_are_the_ones_that_every_function_answers(func):
    assert func["deploy"]["healthEndpoints"] == {
        "liveness": "/health/liveness",
        "readiness": "/health/readiness",
    }


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        pytest.param("invok", "http", "invok: unknown key", id="a misspelt key"),
        pytest.param("runtime", "rust", "runtime: 'rust' is none of ['python']", id="another runtime"),
        pytest.param("created", "soon", "created: 'soon' is no <class 'datetime.datetime'>", id="not a date"),
        pytest.param("build.builder", "host", "build.builder: 'host' is none of ['pack', 's2i']", id="a builder"),
        pytest.param("run.envs", [{"name": "A", "valu": "x"}], "run.envs[0].valu: unknown key", id="inside a list"),
        pytest.param("run.startOptions", {}, "run.startOptions: unknown key", id="a key that does not exist"),
    ],
)
def test_the_check_finds_what_func_would_refuse(func, path, value, fault):
    *parents, key = path.split(".")
    target = func
    for parent in parents:
        target = target[parent]
    target[key] = value
    assert list(faults(func, SHAPE)) == [f"func.yaml.{fault}"]


def test_func_finds_its_own_line_in_gitignore_and_adds_none():
    lines = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert any(line.startswith("/.func") for line in lines)

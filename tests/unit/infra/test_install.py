"""The committed files for installing are those that `infra/base` would give, and they are true of the settings."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from headrace.core.installation import (
    function_settings,
    nats_settings,
    operator_settings,
    reconcile_settings,
    secret_files,
)
from headrace.core.installation.function_settings import TokenSettings
from headrace.core.installation.nats_settings import NatsSettings
from headrace.core.installation.operator_settings import OperatorSettings
from headrace.core.installation.reconcile_settings import ReconcileSettings
from headrace.io.process import environment
from headrace_operator.channels import predecessor
from infra.generate import install, marked, values
from tests.support.kube.install import INFRA, ROOT, SYSTEM, by_name, container, documents, in_file, variables
from tests.support.nats.nats_permissions import inbox_of

DEPLOYMENT = "apps/v1 Deployment"
KNATIVE = "serving.knative.dev/v1 Service"
OPTIONAL = {
    "nats-config": "config-nats",
    "nats-config-proposed": "config-jetstream",
    "nats-credentials": "headrace-nats",
    "nats-own-credentials": "headrace-nats-{}",
    "defaults": "config-ch-jetstream-defaults",
}
WRITTEN = install.files()
Objects = dict[tuple[str, str, str], dict[str, Any]]


OPERATOR = (DEPLOYMENT, SYSTEM, "headrace-operator")
RECONCILE = {
    install.INSTALL: (KNATIVE, SYSTEM, "headrace-hook"),
    install.PLAIN: (DEPLOYMENT, SYSTEM, "headrace-reconcile"),
}


@pytest.fixture(scope="module", params=RECONCILE, ids=lambda path: path.name)
def file(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


@pytest.fixture(scope="module")
def installed(file: Path) -> Objects:
    return by_name(in_file(file))


@pytest.fixture(scope="module")
def reconcile(file: Path, installed: Objects) -> dict[str, Any]:
    return installed[RECONCILE[file]]


@pytest.fixture(scope="module")
def operator(installed: Objects) -> dict[str, Any]:
    return installed[OPERATOR]


@pytest.fixture(params=["operator", "reconcile"])
def program(
    request: pytest.FixtureRequest, operator: dict[str, Any], reconcile: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    return request.param, operator if request.param == "operator" else reconcile


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: str(path.relative_to(INFRA)))
def test_what_is_committed_is_what_would_be_written(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == WRITTEN[path], "run `task manifests`"


def test_no_file_is_left_of_what_is_not_written_any_more() -> None:
    by_hand = {"_names.tpl", "token.yaml", "monitoring.yaml", "links.yaml", "NOTES.txt"}
    there = {path.name for path in (INFRA / "chart/templates").iterdir()} - by_hand
    assert there == {path.name for path in WRITTEN if path.parent == INFRA / "chart/templates"}


def test_the_chart_has_a_link_to_the_crd_to_each_dashboard_and_to_the_alerts_and_no_copy() -> None:
    crds = {path for path in (INFRA / "crds").iterdir() if path.name != "kustomization.yaml"}
    shown = {*(INFRA / "grafana").glob("*.json"), INFRA / "prometheus/alerts.yaml"}
    for folder, wanted in ("crds", crds), ("files", shown):
        there = list((INFRA / "chart" / folder).iterdir())
        assert {path.resolve() for path in there} == wanted
        # Relative, so that they lead to the same place in every clone.
        assert [path for path in there if not path.is_symlink() or path.readlink().is_absolute()] == []


def test_every_file_of_the_base_is_in_it() -> None:
    there = {path for path in (INFRA / "base").rglob("*.yaml") if path.name != "kustomization.yaml"}
    assert there == {path for path in install.resources() if path.is_relative_to(INFRA / "base")}


def test_nothing_is_installed_that_users_have_or_that_holds_what_is_theirs(installed: Objects) -> None:
    kinds = {kind for kind, _, _ in installed}
    assert kinds & {"v1 Namespace", "v1 Secret", "v1 ConfigMap"} == set()


def test_what_users_have_is_mounted_where_it_is_and_the_token_must_be_there(
    program: tuple[str, dict[str, Any]],
) -> None:
    name, body = program
    for volume in body["spec"]["template"]["spec"]["volumes"]:
        source = volume.get("secret") or volume["configMap"]
        called = source.get("secretName") or source["name"]
        if volume["name"] == "token":
            assert (called, "optional" in source) == ("headrace-token", False)
        else:
            expected = OPTIONAL[volume["name"]].format(name)
            assert (called, source["optional"]) == (expected, True)
    mounted = {one["mountPath"] for one in container(body)["volumeMounts"]}
    found = variables(body)
    assert found["HEADRACE_TOKEN_FILE"] == "/etc/headrace/token/token"
    levels = {f"{found['NATS_CREDENTIALS_DIR']}/{level}" for level in ("cluster", "cluster-function")}
    config = {f"{found['NATS_CONFIG_DIR']}/{folder}" for folder in ("named", "proposed", "defaults")}
    assert {"/etc/headrace/token"} | levels | config <= mounted
    if name == "reconcile":
        assert found["HEADRACE_DEFAULTS_DIR"] in mounted
    assert {"cluster", "cluster-function"} < set(secret_files.LEVELS)
    assert found["NATS_FUNCTION_INBOX_PREFIX"] == inbox_of(name)


def test_reconcile_takes_its_environment(reconcile: dict[str, Any]) -> None:
    found = variables(reconcile)
    for model in (ReconcileSettings, NatsSettings, TokenSettings):
        environment.fill(model, found)
    read = environment.fill(ReconcileSettings, found)
    assert read.image == container(reconcile)["image"]
    assert read.system_namespace == SYSTEM
    assert read.nats_config_map == found["NATS_CONFIG_NAME"]
    assert {found["HEADRACE_DEFAULTS_DIR"]} < {one["mountPath"] for one in container(reconcile)["volumeMounts"]}


def test_every_variable_is_a_setting(program: tuple[str, dict[str, Any]]) -> None:
    modules = (function_settings, nats_settings, operator_settings, reconcile_settings)
    models = [model for module in modules for model in vars(module).values() if hasattr(model, "model_fields")]
    known = {field.alias for model in models for field in model.model_fields.values()}
    told = {one["name"] for one in container(program[1])["env"]}
    assert told - known == {"FUNCTION_TARGET"} & told


def test_the_operator_asks_reconcile_where_it_is(
    installed: Objects, operator: dict[str, Any], reconcile: dict[str, Any]
) -> None:
    environment.fill(OperatorSettings, variables(operator))
    name = reconcile["metadata"]["name"]
    assert variables(operator)["HOOK_URL"] == f"http://{name}.{SYSTEM}.svc"
    service = installed.get(("v1 Service", SYSTEM, name))
    # Knative makes the Service of its own.
    assert (reconcile["kind"] == "Service") if service is None else (service["spec"]["ports"][0]["port"] == 80)


def test_what_the_operator_deletes_of_other_installations_is_none_of_its_own(
    installed: Objects, operator: dict[str, Any]
) -> None:
    named = list(predecessor.named(variables(operator)["OPERATOR_SUPERSEDED"]))
    assert named
    assert [one for one in named if (f"{one.api_version} {one.kind}", SYSTEM, one.name) in installed] == []


def test_what_one_installation_has_and_the_other_has_not_goes_when_they_are_changed() -> None:
    objects = {file: by_name(in_file(file)) for file in RECONCILE}
    for file, other in (install.INSTALL, install.PLAIN), (install.PLAIN, install.INSTALL):
        # A role that is not needed any more does nothing.
        left = {key for key in objects[other].keys() - objects[file].keys() if not key[0].startswith("rbac.")}
        named = predecessor.named(variables(objects[file][OPERATOR])["OPERATOR_SUPERSEDED"])
        assert left <= {(f"{one.api_version} {one.kind}", SYSTEM, one.name) for one in named}
        assert [key for key in left if not predecessor.is_left(objects[other][key])] == []


def test_beside_knative_serving_only_the_operator_is_up_at_rest() -> None:
    objects = by_name(in_file(install.INSTALL))
    assert [key for key in objects if key[0].startswith("apps/v1 ")] == [OPERATOR]
    assert objects[OPERATOR]["spec"]["replicas"] == 1
    hook = objects[RECONCILE[install.INSTALL]]["spec"]["template"]["metadata"]["annotations"]
    scaling = {name.partition("/")[2]: text for name, text in hook.items() if name.startswith("autoscaling.")}
    assert (scaling["min-scale"], scaling["window"], scaling["initial-scale"]) == ("0", "6s", "1")
    assert not ReconcileSettings().host_urls


def test_as_a_knative_service_reconcile_has_the_pod_of_its_deployment() -> None:
    reconcile, service = (by_name(in_file(file))[RECONCILE[file]] for file in (install.PLAIN, install.INSTALL))
    for key in ("name", "image", "resources", "securityContext", "volumeMounts"):
        assert container(service)[key] == container(reconcile)[key]
    beside_serving = {"HEADRACE_RUNTIME": "auto", "HEADRACE_ZERO_INITIAL_SCALE": "auto"}
    assert variables(service) == {**variables(reconcile), **beside_serving}
    pods, plain = service["spec"]["template"]["spec"], reconcile["spec"]["template"]["spec"]
    for key in ("serviceAccountName", "automountServiceAccountToken", "enableServiceLinks", "volumes"):
        assert pods[key] == plain[key]


def test_pods_are_restricted(program: tuple[str, dict[str, Any]]) -> None:
    context = container(program[1])["securityContext"]
    assert context == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def test_the_image_is_nobodys_until_it_is_set(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    # As the head of the file says, which is the fourth.
    assert text.count("headrace.example/headrace:0.1.0") == 3 + 1
    version = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert version
    (chart,) = in_file(INFRA / "chart/Chart.yaml")
    assert (chart["version"], chart["appVersion"]) == (version[1], version[1])


def test_a_mark_gives_its_template_to_the_chart_and_is_gone_from_what_is_applied() -> None:
    text = """\
a: 1  # chart: {{ .Values.a }}
b:  # chart: {{ toYaml .Values.b | nindent 2 }}
  c: 2
  d:
    - 3
# chart+ {{- include "more" . }}
e: knative-eventing
"""
    assert marked.plain(text) == "a: 1\nb:\n  c: 2\n  d:\n    - 3\ne: knative-eventing\n"
    assert marked.template(text) == (
        "a: {{ .Values.a }}\nb: {{ toYaml .Values.b | nindent 2 }}\n"
        '{{- include "more" . }}\ne: {{ .Release.Namespace }}\n'
    )


def test_a_mark_in_the_wrong_place_is_an_error() -> None:
    with pytest.raises(AssertionError, match="a bad mark"):
        marked.template("- {a: 1}  # chart: {{ .Values.a }}\n")


def test_whoever_scrapes_by_the_chart_keeps_the_namespaces_of_channels() -> None:
    text = (INFRA / "chart" / "templates" / "monitoring.yaml").read_text()

    assert text.count("path: /metrics") == 2
    assert text.count("honorLabels: true") == 2


def test_the_values_are_their_own_schemas() -> None:
    (found,) = documents(values.yaml_text())
    assert values.Values.model_validate(found) == values.Values()


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"imagee": {}}, id="a misspelt value"),
        pytest.param({"image": {"digest": "sha256:short"}}, id="a digest that is none"),
        pytest.param({"reconcile": {"kind": "job"}}, id="another kind"),
        pytest.param({"operator": {"replicas": -1}}, id="less than no operator"),
    ],
)
def test_values_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        values.Values.model_validate(wrong)


def test_every_object_of_the_schema_that_has_members_is_closed() -> None:
    def open_ones(node: Any, path: str = "") -> list[str]:
        if isinstance(node, list):
            return [found for one in node for found in open_ones(one, path)]
        if not isinstance(node, dict):
            return []
        own = [path] if "properties" in node and node.get("additionalProperties") is not False else []
        return own + [found for key, one in node.items() if key != "properties" for found in open_ones(one, key)]

    assert open_ones(values.schema()) == []
    assert values.schema()["$defs"]["Image"]["properties"]["digest"]["pattern"]


def test_kind_leads_this_machines_ports_to_those_of_the_overlay() -> None:
    (cluster,) = in_file(INFRA / "kind/cluster.yaml")
    led = {one["containerPort"]: one for one in cluster["nodes"][0]["extraPortMappings"]}
    services = [
        one
        for file in ("nats.yaml", "receive.yaml")
        for one in in_file(INFRA / "components/kind" / file)
        if one["kind"] == "Service"
    ]
    opened = {port["nodePort"] for one in services for port in one["spec"]["ports"]}
    assert led.keys() == opened
    assert {one["listenAddress"] for one in led.values()} == {"127.0.0.1"}


@pytest.mark.parametrize(
    ("words", "overlay"),
    [((), "infra/overlays/kind"), (("--serving",), "infra/overlays/kind-serving")],
    ids=["without Serving", "with Serving"],
)
def test_kind_says_what_it_would_do_with_files_that_are_there(words: tuple[str, ...], overlay: str) -> None:
    command = ["bash", "infra/kind/up", *words, "--dry-run"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    named = set(re.findall(r"infra/[\w./-]+", done.stdout))
    assert named == {"infra/kind/cluster.yaml", overlay}
    assert [name for name in named if not (ROOT / name).exists()] == []
    assert f"kubectl --context kind-headrace apply --server-side -k {overlay}\n" in done.stdout


def test_kind_does_nothing_with_a_word_that_it_does_not_know() -> None:
    done = subprocess.run(["bash", "infra/kind/up", "--dryrun"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert "what is --dryrun?" in done.stderr


def test_the_notes_of_the_chart_look_at_what_channels_have() -> None:
    notes = (INFRA / "chart/templates/NOTES.txt").read_text(encoding="utf-8")
    (definition,) = in_file(INFRA / "crds/natsjetstreamchannels.yaml")
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    named = re.findall(r":\.((?:status|spec)\.[\w.]+)", notes)
    assert named
    for path in named:
        found = schema
        for step in path.split("."):
            found = found.get("properties", {}).get(step) or pytest.fail(f"a channel has no {path}")

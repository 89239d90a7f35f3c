"""kustomize and Helm render the committed files, and both the same."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from headrace.reconcile import VERBS
from infra.programs import tool_binaries
from tests.support.kube.install import INFRA, SYSTEM, blocks, by_name, container, documents, in_file, variables

CHART = INFRA / "chart"
DEPLOYMENT = "apps/v1 Deployment"
KNATIVE = "serving.knative.dev/v1 Service"
TOKEN = ("v1 Secret", SYSTEM, "headrace-token")
POLICY = "networking.k8s.io/v1 NetworkPolicy"
CRD = "apiextensions.k8s.io/v1 CustomResourceDefinition"
# Our Helm is built without its release's word on the newest Kubernetes.
KUBERNETES = ("--kube-version", "1.34.0")
Objects = dict[tuple[str, str, str], dict[str, Any]]


@pytest.fixture(scope="module")
def helm() -> Path:
    return tool_binaries.found(tool_binaries.HELM)["helm"]


@pytest.fixture(scope="module")
def kustomize() -> Path:
    return tool_binaries.found(tool_binaries.KUSTOMIZE)["kustomize"]


def said(*command: str | Path) -> str:
    """What a program writes; its own words when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def built(kustomize: Path, folder: Path) -> Objects:
    return by_name(documents(said(kustomize, "build", folder)))


def rendered(helm: Path, *options: str, namespace: str = SYSTEM, chart: Path = CHART) -> Objects:
    command = (helm, "template", "headrace", chart, "-n", namespace, "--include-crds", *KUBERNETES, *options)
    return by_name(documents(said(*command)))


def mine(tmp_path: Path, folder: str, component: str) -> Path:
    """A user's folder beside `infra`, with a component."""
    shutil.copytree(INFRA, tmp_path / "infra")
    (tmp_path / "mine").mkdir()
    text = f"resources: [../infra/{folder}]\ncomponents: [../infra/components/{component}]\n"
    (tmp_path / "mine" / "kustomization.yaml").write_text(text, encoding="utf-8")
    return tmp_path / "mine"


def sorted_variables(objects: Objects) -> Objects:
    """With the variables of each program in the order of their names: a patch moves what it changes."""
    for body in objects.values():
        for one in body.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ()):
            one.get("env", []).sort(key=lambda variable: str(variable["name"]))
    return objects


def test_the_base_is_install_yaml(kustomize: Path) -> None:
    assert built(kustomize, INFRA / "base") == by_name(in_file(INFRA / "install.yaml"))


def test_the_overlay_deployment_is_its_file(kustomize: Path) -> None:
    found, file = built(kustomize, INFRA / "overlays/deployment"), by_name(in_file(INFRA / "install-deployment.yaml"))
    assert sorted_variables(found) == sorted_variables(file)


def test_the_overlay_knative_is_the_base_by_now(kustomize: Path) -> None:
    assert built(kustomize, INFRA / "overlays/knative") == built(kustomize, INFRA / "base")


@pytest.mark.parametrize("folder", ["base", "overlays/deployment"])
def test_without_network_policies_all_the_rest_is_as_it_was(kustomize: Path, tmp_path: Path, folder: str) -> None:
    found = built(kustomize, mine(tmp_path, folder, "without-network-policies"))
    base = built(kustomize, INFRA / folder)
    assert found == {key: one for key, one in base.items() if key[0] != POLICY}
    assert len(found) < len(base)


def test_a_namespace_with_functions_of_its_own_can_have_the_policies_too(kustomize: Path, tmp_path: Path) -> None:
    shutil.copytree(INFRA / "base/network", tmp_path / "infra/base/network")
    (tmp_path / "shop").mkdir()
    (found,) = [one for one in blocks() if one.about == "shop/kustomization.yaml"]
    (tmp_path / "shop/kustomization.yaml").write_text(found.text)
    policies, base = built(kustomize, tmp_path / "shop"), built(kustomize, INFRA / "base")
    assert {namespace for _, namespace, _ in policies} == {"shop"}
    assert {name: one["spec"] for (_, _, name), one in policies.items()} == {
        name: one["spec"] for (kind, _, name), one in base.items() if kind == POLICY
    }


@pytest.mark.parametrize("folder", ["base", "overlays/deployment"])
def test_a_second_operator_is_a_component(kustomize: Path, tmp_path: Path, folder: str) -> None:
    found, base = built(kustomize, mine(tmp_path, folder, "ha")), built(kustomize, INFRA / folder)
    operator = (DEPLOYMENT, SYSTEM, "headrace-operator")
    assert (found[operator]["spec"].pop("replicas"), base[operator]["spec"].pop("replicas")) == (2, 1)
    assert found == base


def test_with_a_metacontroller_there_is_no_operator_and_functions_have_the_account_of_their_namespace(
    kustomize: Path,
) -> None:
    base, found = built(kustomize, INFRA / "overlays/deployment"), built(kustomize, INFRA / "overlays/metacontroller")
    (controller,) = in_file(INFRA / "overlays/metacontroller/compositecontroller.yaml")
    assert found.pop(("metacontroller.k8s.io/v1alpha1 CompositeController", "", "headrace")) == controller
    reconcile = (DEPLOYMENT, SYSTEM, "headrace-reconcile")
    told = variables(base.pop(reconcile))
    del told["HEADRACE_SERVICE_ACCOUNT"]
    # Of the kinds that the CompositeController names.
    told["HEADRACE_RUNTIME"] = "auto"
    assert variables(found.pop(reconcile)) == told
    policy = (POLICY, SYSTEM, "headrace-reconcile")
    (before,), (after,) = (one.pop(policy)["spec"]["ingress"] for one in (base, found))
    asks = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "metacontroller"}}}
    assert after == {**before, "from": [*before["from"], asks]}
    assert found == {key: one for key, one in base.items() if key[2] != "headrace-operator"}


def test_a_metacontroller_asks_the_reconcile_that_is_installed_and_for_nothing_but_channels(kustomize: Path) -> None:
    found = built(kustomize, INFRA / "overlays/metacontroller")
    spec = found["metacontroller.k8s.io/v1alpha1 CompositeController", "", "headrace"]["spec"]
    service = found["v1 Service", SYSTEM, "headrace-reconcile"]["metadata"]
    urls = {name: one["webhook"]["url"] for name, one in spec["hooks"].items()}
    host = f"{service['name']}.{service['namespace']}.svc"
    assert urls == {verb: f"http://headrace:TOKEN@{host}/{verb}" for verb in VERBS}
    (crd,) = [one for (kind, _, _), one in found.items() if kind == CRD]
    parent = f"{crd['spec']['group']}/{crd['spec']['versions'][0]['name']}", crd["spec"]["names"]["plural"]
    assert (spec["parentResource"]["apiVersion"], spec["parentResource"]["resource"]) == parent


@pytest.mark.parametrize(
    ("overlay", "folder", "reconcile"),
    [
        ("kind", "overlays/deployment", (DEPLOYMENT, SYSTEM, "headrace-reconcile")),
        ("kind-serving", "base", (KNATIVE, SYSTEM, "headrace-hook")),
    ],
)
def test_kind_brings_nats_and_its_own_image(
    kustomize: Path, overlay: str, folder: str, reconcile: tuple[str, str, str]
) -> None:
    base, kind = built(kustomize, INFRA / folder), built(kustomize, INFRA / "overlays" / overlay)
    added = {(key, name) for key, _, name in kind.keys() - base.keys()}
    assert {("apps/v1 StatefulSet", "nats"), ("v1 Service", "headrace-receive-node")} < added
    assert base.keys() < kind.keys()
    operator = kind[DEPLOYMENT, SYSTEM, "headrace-operator"]
    told = variables(kind[reconcile])
    images = {container(kind[reconcile])["image"], container(operator)["image"], told["HEADRACE_IMAGE"]}
    assert images == {"localhost/headrace:kind"}
    # Else there is no plain `receive` that the node port leads to.
    assert told["HEADRACE_RUNTIME"] == "deployment" or told["HEADRACE_HOST_URLS"] == "true"


def test_the_chart_is_sound(helm: Path) -> None:
    said(helm, "lint", "--strict", CHART)


def test_a_packaged_chart_holds_the_crd_the_dashboards_and_the_alerts(helm: Path, tmp_path: Path) -> None:
    said(helm, "package", CHART, "--destination", tmp_path)
    (package,) = tmp_path.iterdir()
    with tarfile.open(package) as archive:
        assert [one.name for one in archive.getmembers() if not one.isfile()] == []
    # A token is another one in each rendering.
    options = ("token.create=false", "dashboards.enabled=true", "alerts.enabled=true")
    words = [word for one in options for word in ("--set", one)]
    found = rendered(helm, *words, chart=package)
    assert found == rendered(helm, *words)
    (definition,) = [one for (kind, _, _), one in found.items() if kind == CRD]
    assert definition == in_file(INFRA / "crds/natsjetstreamchannels.yaml")[0]
    boards = [one for (kind, _, _), one in found.items() if kind == "v1 ConfigMap"]
    assert len(boards) == len(list((INFRA / "grafana").glob("*.json")))


@pytest.mark.parametrize("as_text", [False, True], ids=["left out", "written as text"])
def test_a_chart_whose_links_were_not_followed_is_not_installed(helm: Path, tmp_path: Path, as_text: bool) -> None:
    shutil.copytree(CHART, tmp_path / "chart", symlinks=True)
    for link in [path for path in (tmp_path / "chart").rglob("*") if path.is_symlink()]:
        led = link.readlink()
        link.unlink()
        if as_text:
            link.write_text(str(led), encoding="utf-8")
    command = (helm, "template", "headrace", tmp_path / "chart", *KUBERNETES)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "give Helm what `helm package infra/chart` writes" in done.stderr


# What Helm itself asks of the cluster; without one it has to be told.
SERVED = ("--api-versions", "serving.knative.dev/v1")
EVENTING = ("--api-versions", "eventing.knative.dev/v1")


@pytest.mark.parametrize(
    ("options", "folder"),
    [
        pytest.param(SERVED, "base", id="beside Knative Serving"),
        pytest.param((), "overlays/deployment", id="without it"),
        pytest.param(("--set", "reconcile.kind=knative"), "base", id="told so"),
        pytest.param((*SERVED, "--set", "reconcile.kind=deployment"), "overlays/deployment", id="told otherwise"),
    ],
)
def test_the_chart_is_what_fits_the_cluster_and_a_token(
    helm: Path, kustomize: Path, options: tuple[str, ...], folder: str
) -> None:
    found, expected = rendered(helm, *EVENTING, *options), built(kustomize, INFRA / folder)
    assert len(found.pop(TOKEN)["data"]["token"]) >= 32
    if (reconcile := expected.get((DEPLOYMENT, SYSTEM, "headrace-reconcile"))) is not None:
        # The chart has a value for it, and `auto` is Deployments where there is nothing else.
        (runtime,) = (one for one in container(reconcile)["env"] if one["name"] == "HEADRACE_RUNTIME")
        assert runtime["value"] == "deployment"
        runtime["value"] = "auto"
        if SERVED[0] in options:
            (zero,) = (one for one in container(reconcile)["env"] if one["name"] == "HEADRACE_ZERO_INITIAL_SCALE")
            zero["value"] = "auto"
            # Where Serving is there, a channel may still ask for it.
            assert found.pop(("rbac.authorization.k8s.io/v1 Role", "knative-serving", "headrace-operator-autoscaler"))
            assert found.pop(
                ("rbac.authorization.k8s.io/v1 RoleBinding", "knative-serving", "headrace-operator-autoscaler")
            )
    assert sorted_variables(found) == sorted_variables(expected)


def test_the_release_is_in_whatever_namespace_it_is_given(helm: Path) -> None:
    found = rendered(helm, namespace="events")
    assert {namespace for _, namespace, _ in found} == {"", "events"}
    knative = rendered(helm, *SERVED, namespace="events")
    assert {namespace for _, namespace, _ in knative} == {"", "events", "knative-serving"}
    assert "knative-eventing" not in str([one for (kind, _, _), one in found.items() if kind != CRD])
    # Where that is, its flags are in a namespace of its own.
    eventing = rendered(helm, *EVENTING, namespace="events")
    assert {namespace for _, namespace, _ in eventing} == {"", "events", "knative-eventing"}


def test_one_namespace_has_rights_in_no_other(helm: Path) -> None:
    found = rendered(helm, *SERVED, *EVENTING, "--set", "namespaced=true", namespace="shop")
    assert {namespace for _, namespace, _ in found} == {"", "shop"}
    assert variables(found[KNATIVE, "shop", "headrace-hook"])["HEADRACE_ZERO_INITIAL_SCALE"] == "false"
    assert not [kind for kind, _, _ in found if kind.endswith(" ClusterRoleBinding")]
    bound = [one["roleRef"]["kind"] for (kind, namespace, _), one in found.items() if kind.endswith(" RoleBinding")]
    assert sorted(bound) == ["ClusterRole", "ClusterRole", "Role"]
    assert variables(found[DEPLOYMENT, "shop", "headrace-operator"])["WATCH_NAMESPACE"] == "shop"


VALUES = """\
image: {repository: r.example/h, digest: "sha256:%s", pullSecrets: [one, two]}
nats: {url: "nats://a:4222,nats://b:4222", configMap: config-jetstream, credentialsSecret: mine}
token: {secret: shared}
operator:
  replicas: 3
  resources: {limits: {memory: 1Gi}}
  nodeSelector: {disk: fast}
  tolerations: [{key: a, operator: Exists}]
  affinity: {nodeAffinity: {}}
  priorityClassName: high
  env: {LOG_LEVEL: debug}
  namespaces: [shop]
reconcile: {replicas: 2, env: {HEADRACE_CLUSTER: west}, nodeSelector: {disk: slow}}
functions:
  {runtime: deployment, isolation: shared, hostUrls: true, zeroInitialScale: true, kedaMonitoring: "nats:8222",
   env: {LOG_LEVEL: debug, FORWARD_MAX_IN_FLIGHT: "20"}}
""" % ("0" * 64)


@pytest.fixture(scope="module")
def valued(helm: Path, tmp_path_factory: pytest.TempPathFactory) -> Objects:
    file = tmp_path_factory.mktemp("values") / "values.yaml"
    file.write_text(VALUES, encoding="utf-8")
    return rendered(helm, "--values", str(file))


def test_network_policies_are_of_the_namespaces_that_are_named_or_not_there_at_all(helm: Path) -> None:
    options = ("networkPolicies.monitoring.team=watch", "networkPolicies.gateways={knative,envoy}")
    found = rendered(helm, *(word for one in options for word in ("--set", one)), namespace="events")
    metrics, knative = found[POLICY, "events", "headrace-functions"]["spec"]["ingress"]
    labels = {"headrace.dev/monitoring": "true", "team": "watch"}
    assert metrics["from"] == [{"namespaceSelector": {"matchLabels": labels}}]
    assert knative["from"][0]["namespaceSelector"]["matchExpressions"][0]["values"] == ["knative", "envoy"]
    (lease,) = found[POLICY, "events", "headrace-forward"]["spec"]["ingress"]
    assert lease["from"][0]["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "events"}
    off = rendered(helm, "--set", "networkPolicies.enabled=false")
    assert [key for key in off if key[0] == POLICY] == []


def test_every_value_of_the_operator_arrives(valued: Objects) -> None:
    operator = valued[DEPLOYMENT, SYSTEM, "headrace-operator"]
    pods = operator["spec"]["template"]["spec"]
    image = f"r.example/h@sha256:{'0' * 64}"
    assert operator["spec"]["replicas"] == 3
    binding = valued["rbac.authorization.k8s.io/v1 RoleBinding", "shop", "headrace-operator-functions"]
    assert binding["subjects"][0]["namespace"] == SYSTEM
    assert container(operator)["image"] == image
    # Helm merges what is given into what is default.
    assert container(operator)["resources"]["limits"] == {"memory": "1Gi"}
    assert pods["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}]
    assert (pods["nodeSelector"], pods["priorityClassName"]) == ({"disk": "fast"}, "high")
    assert (pods["tolerations"], pods["affinity"]) == ([{"key": "a", "operator": "Exists"}], {"nodeAffinity": {}})
    assert [one.get("secret") or one["configMap"] for one in pods["volumes"]] == [
        {"secretName": "shared"},
        {"name": "config-jetstream", "optional": True},
        {"name": "config-jetstream", "optional": True},
        {"secretName": "mine", "optional": True},
        {"secretName": "mine-operator", "optional": True},
        {"name": "config-ch-jetstream-defaults", "optional": True},
    ]
    found = variables(operator)
    assert (found["LOG_LEVEL"], found["NATS_URL"]) == ("debug", "nats://a:4222,nats://b:4222")
    assert found["NATS_CONFIG_NAME"] == "config-jetstream"


def test_every_value_of_the_functions_arrives(valued: Objects) -> None:
    reconcile = valued[DEPLOYMENT, SYSTEM, "headrace-reconcile"]
    assert reconcile["spec"]["replicas"] == 2
    assert reconcile["spec"]["template"]["spec"]["nodeSelector"] == {"disk": "slow"}
    found = variables(reconcile)
    wanted = {
        "HEADRACE_IMAGE": container(reconcile)["image"],
        "HEADRACE_CLUSTER": "west",
        "HEADRACE_RUNTIME": "deployment",
        "HEADRACE_ISOLATION": "shared",
        "HEADRACE_HOST_URLS": "true",
        "HEADRACE_ZERO_INITIAL_SCALE": "true",
        "HEADRACE_KEDA_MONITORING": "nats:8222",
        "HEADRACE_PULL_SECRETS": "one,two",
        "HEADRACE_NATS_CONFIG_MAP": "config-jetstream",
        "HEADRACE_NATS_CREDS_SECRET": "mine",
    }
    assert {name: found[name] for name in wanted} == wanted
    assert found["HEADRACE_FUNCTIONS_ENV"].split() == ["FORWARD_MAX_IN_FLIGHT=20", "LOG_LEVEL=debug"]
    assert ("v1 Secret", SYSTEM, "shared") in valued


def test_monitoring_is_there_when_it_is_asked_for(helm: Path) -> None:
    options = ("serviceMonitor.enabled=true", "dashboards.enabled=true", "alerts.enabled=true", "alerts.labels.a=b")
    found = rendered(helm, *(word for one in options for word in ("--set", one)))
    monitoring = "monitoring.coreos.com/v1"
    operator = found["v1 Service", SYSTEM, "headrace-operator"]
    monitor = found[f"{monitoring} ServiceMonitor", SYSTEM, "headrace-operator"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= operator["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"][0]["port"] == operator["spec"]["ports"][0]["name"]
    assert f"{monitoring} PodMonitor" in {kind for kind, _, _ in found}
    for path in (INFRA / "grafana").glob("*.json"):
        board = found["v1 ConfigMap", SYSTEM, path.stem]
        assert board["data"] == {path.name: path.read_text(encoding="utf-8")}
        assert board["metadata"]["labels"]["grafana_dashboard"] == "1"
    rules = found[f"{monitoring} PrometheusRule", SYSTEM, "headrace"]
    (alerts,) = in_file(INFRA / "prometheus/alerts.yaml")
    assert rules["spec"] == alerts
    assert rules["metadata"]["labels"] == {"app.kubernetes.io/name": "headrace", "a": "b"}


@pytest.mark.parametrize(
    "wrong", ["image.digset=x", "reconcile.kind=job", "operator.replicas=-1", "image.digest=sha256:x"]
)
def test_a_value_that_makes_no_sense_is_an_error(helm: Path, wrong: str) -> None:
    command = (helm, "template", "headrace", CHART, *KUBERNETES, "--set", wrong)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "values don't meet the specifications of the schema" in done.stderr

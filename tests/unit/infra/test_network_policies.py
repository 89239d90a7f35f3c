"""Who may connect to which port of which pod: every pod that we render, and every kind of caller, as one table.

No cluster of our tests has a network that enforces policies, so an evaluator of Kubernetes' rules stands in for it; the
API server takes the policies in tests/control_plane/kube/test_install.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from headrace.core.channel.children import MountedFile, NatsMounts
from infra.generate import install
from tests.support.functions.channels import entry
from tests.support.functions.children import wanted
from tests.support.kube.install import INFRA, SYSTEM, in_file
from tests.support.kube.network_policies import Network, Pod, of

POLICY = "NetworkPolicy"
INSTALLED = {file: in_file(file) for file in (install.INSTALL, install.PLAIN)}
NETWORK = Network(
    [one for one in INSTALLED[install.INSTALL] if one["kind"] == POLICY],
    {"monitoring": {"headrace.dev/monitoring": "true"}},
)
OURS = {"app.kubernetes.io/name": "headrace"}
OPERATOR, RECONCILE = ({**OURS, "app.kubernetes.io/component": name} for name in ("operator", "reconcile"))
CALLERS = {
    "the operator": Pod(SYSTEM, OPERATOR),
    "the installation's reconcile": Pod(SYSTEM, RECONCILE),
    "its forward": Pod(SYSTEM, {**OURS, "app.kubernetes.io/component": "forward"}),
    "another pod beside them": Pod(SYSTEM, {"app": "eventing-controller"}),
    "Knative's activator": Pod("knative-serving", {"app": "activator"}),
    "a gateway": Pod("kourier-system", {"app": "3scale-kourier-gateway"}),
    "Prometheus": Pod("monitoring"),
    "Prometheus elsewhere": Pod("prometheus"),
    "a tenant": Pod("shop"),
    "a tenant that calls itself the operator": Pod("shop", OPERATOR),
    "a tenant that calls itself reconcile": Pod("shop", RECONCILE),
}
EVERYBODY = set(CALLERS)
KNATIVE = {"Knative's activator", "a gateway"}
MONITORING = {"Prometheus"}
# Events or questions, Knative's queue-proxy and its numbers, metrics. The operator has its metrics where it has probes.
PORTS = (8080, 8012, 8013, 8112, 9090, 9464)
BEHIND_KNATIVE = dict.fromkeys((8012, 8013, 8112, 9090), KNATIVE)
MAY = {
    "operator": {8080: MONITORING},
    "receive": {8080: EVERYBODY, 9464: MONITORING, **BEHIND_KNATIVE},
    "forward": {8080: {"the operator"}, 9464: MONITORING, **BEHIND_KNATIVE},
    "reconcile": {8080: {"the operator", "the installation's reconcile"}, 9464: MONITORING, **BEHIND_KNATIVE},
    "own-reconcile": {8080: {"the operator", "the installation's reconcile"}, 9464: MONITORING, **BEHIND_KNATIVE},
}
# What a channel's author writes on pods in the hope of another policy, or of none.
FORGED = {"app.kubernetes.io/name": "mine", "app.kubernetes.io/component": "receive"}


def rendered() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every kind of pod in the system namespace, with a name for it."""
    for file, bodies in INSTALLED.items():
        yield from ((f"{one['metadata']['name']} of {file.name}", one) for one in bodies if has_pods(one))
    for runtime in ("knative", "deployment"):
        for isolation in ("subscriber", "shared"):
            for wishes in ({}, {"deploymentSpecTemplate": {"labels": FORGED}}):
                settings = {"runtime": runtime, "isolation": isolation, "host_urls": True}
                found = wanted(entry(), settings=settings, **wishes).objects
                what = f"{runtime}, {isolation}{', with wishes' if wishes else ''}"
                yield from ((f"{one['metadata']['name']}: {what}", one) for one in found if has_pods(one))
    # A channel of the system namespace with credentials of its own.
    found = wanted(entry(), namespace=SYSTEM, access=NatsMounts(own=True)).objects
    yield from ((f"{one['metadata']['name']}: own credentials", one) for one in found if has_pods(one))


def has_pods(body: dict[str, Any]) -> bool:
    return "template" in body.get("spec", {})


RENDERED = dict(rendered())


def test_every_part_is_among_the_rendered_pods_and_all_of_them_are_in_the_system_namespace() -> None:
    assert {component(one) for one in RENDERED.values()} == set(MAY)
    assert {one["metadata"]["namespace"] for one in RENDERED.values()} == {SYSTEM}


@pytest.mark.parametrize("name", RENDERED)
def test_who_may_connect_to_which_port(name: str) -> None:
    target = of(RENDERED[name])
    found = {
        port: {caller for caller, pod in CALLERS.items() if NETWORK.allows(pod, target, port)}
        for port in PORTS
    }  # fmt: skip
    assert found == {port: MAY[component(RENDERED[name])].get(port, set()) for port in PORTS}


@pytest.mark.parametrize("name", RENDERED)
def test_no_pod_listens_where_the_table_does_not_look(name: str) -> None:
    (container,) = RENDERED[name]["spec"]["template"]["spec"]["containers"]
    assert {one["containerPort"] for one in container["ports"]} <= set(PORTS)


def test_pods_of_others_in_the_same_namespace_are_left_alone() -> None:
    assert NETWORK.selecting(Pod(SYSTEM, {"app": "eventing-controller"})) == []
    assert NETWORK.allows(Pod("shop"), Pod(SYSTEM, {"app": "eventing-controller"}), 8443)


def test_both_files_have_the_same_policies() -> None:
    one, other = ([body for body in bodies if body["kind"] == POLICY] for bodies in INSTALLED.values())
    assert one == other
    assert len(one) == 5


def test_in_a_namespace_with_functions_of_its_own_they_let_the_installation_in_and_no_neighbour() -> None:
    """As docs/install.md has them put there: the same file, in another namespace."""
    moved = [{**one, "metadata": {**one["metadata"], "namespace": "shop"}} for one in NETWORK.policies]
    network = Network(moved, NETWORK.namespaces)
    own = NatsMounts().with_credentials("channel", [MountedFile("nats.creds", "nats.creds", secret="theirs")])
    found = wanted(entry(), access=own, elsewhere=True, settings={"runtime": "deployment"})
    pods = [one for one in found.objects if has_pods(one)]
    assert {one["metadata"]["namespace"] for one in pods} == {"shop"}
    for one in pods:
        for caller in ("a tenant", "a tenant that calls itself the operator", "a tenant that calls itself reconcile"):
            allowed = network.allows(CALLERS[caller], of(one), 8080)
            assert allowed == (component(one) == "receive"), (caller, one["metadata"]["name"])
        assert network.allows(CALLERS["the operator"], of(one), 8080)


def test_a_stock_metacontroller_may_ask_reconcile() -> None:
    (overlay,) = in_file(INFRA / "overlays/metacontroller/kustomization.yaml")
    (patch,) = [one for one in overlay["patches"] if one["target"].get("kind") == POLICY]
    (added,) = yaml.safe_load(patch["patch"])
    assert (added["op"], added["path"]) == ("add", "/spec/ingress/0/from/-")
    (policy,) = [one for one in NETWORK.policies if one["metadata"]["name"] == patch["target"]["name"]]
    (rule,) = policy["spec"]["ingress"]
    asked = {**policy, "spec": {**policy["spec"], "ingress": [{**rule, "from": [*rule["from"], added["value"]]}]}}
    target = Pod(SYSTEM, RECONCILE)
    assert Network([asked]).allows(Pod("metacontroller"), target, 8080)
    assert not Network([asked]).allows(Pod("metacontroller"), target, 9464)
    assert not Network([policy]).allows(Pod("metacontroller"), target, 8080)


def test_the_evaluator_refuses_what_it_does_not_know() -> None:
    policy = {"metadata": {"namespace": "a"}, "spec": {"podSelector": {}, "ingress": [{"from": [{"ipBlock": {}}]}]}}
    with pytest.raises(AssertionError, match="ipBlock"):
        Network([policy]).allows(Pod("a"), Pod("a"), 80)


def component(body: dict[str, Any]) -> str:
    return str(body["metadata"]["labels"]["app.kubernetes.io/component"])

"""Functions as Deployments: of one channel that asks for it, and of an installation without Knative Serving."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from tests.cluster.conftest import Told
from tests.support.cluster.installation import HOOK, Installation, first_of
from tests.support.cluster.kubectl import SYSTEM, Body, Kubectl, until
from tests.support.cluster.load import Flow, World
from tests.support.cluster.pods import OURS, Pods
from tests.support.kube.install import ROOT, in_file

NEIGHBOURS = ROOT / "tests/control_plane/crds/neighbours.yaml"
SCALED = "scaledobjects.keda.sh"
MONITORING = "nats.nats-io.svc.cluster.local:8222"
EVENTS, RATE = 500, 50.0

pytestmark = pytest.mark.timeout(500)


@pytest.fixture
def as_deployments(bare: Installation) -> Iterator[Installation]:
    """`infra/install-deployment.yaml`, applied in the way that the page says for it; and taken away again."""
    bare.shell(first_of("kubectl").replace("infra/install.yaml", "infra/install-deployment.yaml"))
    bare.wait()
    yield bare
    bare.remove("kubectl delete -f infra/install-deployment.yaml")
    bare.wait_until_nothing_is_left()


@pytest.fixture
def keda(kubectl: Kubectl) -> Iterator[None]:
    """KEDA's kind, and nobody who obeys it."""
    (crd,) = [one for one in in_file(NEIGHBOURS) if one["metadata"]["name"] == SCALED]
    kubectl.apply(yaml.safe_dump(crd))
    kubectl("wait", "--for=condition=Established", f"crd/{SCALED}", "--timeout=60s")
    yield
    kubectl("delete", "crd", SCALED)


def functions(kubectl: Kubectl) -> list[str]:
    """Components that are a Deployment in the system namespace, besides those that Knative makes."""
    found = kubectl.objects("deployments", SYSTEM, f"{OURS},!serving.knative.dev/service")
    return sorted(one["metadata"]["labels"]["app.kubernetes.io/component"] for one in found)


def scaled_of(kubectl: Kubectl, flow: Flow) -> list[Body]:
    """ScaledObjects that go by this channel's stream."""
    found = kubectl.objects(SCALED, SYSTEM)
    return [one for one in found if one["spec"]["triggers"][0]["metadata"]["stream"] == flow.channel.stream]


def of_hook(kubectl: Kubectl, container: Body) -> None:
    """`reconcile` with this container, ready."""
    kubectl.merge("ksvc", HOOK, {"spec": {"template": {"spec": {"containers": [container]}}}})
    body = kubectl.get("ksvc", HOOK)
    seen = body["metadata"]["generation"]
    until("it is seen", lambda: kubectl.get("ksvc", HOOK)["status"].get("observedGeneration", 0) >= seen)
    kubectl.wait_ready("ksvc", HOOK, SYSTEM)


def condition(kubectl: Kubectl, flow: Flow, which: str) -> tuple[str, str]:
    return kubectl.condition("natsjetstreamchannel", flow.channel.name, flow.channel.namespace, which)


async def test_a_channel_that_asks_for_deployments_has_them_beside_knative_serving(
    installed: Installation, world: World, kubectl: Kubectl, told: Told
) -> None:
    flow = world.flow("deployments", "orders", runtime="deployment")
    assert functions(kubectl) == ["forward", "operator", "receive"]
    account = await flow.under_load("deployments", EVENTS, RATE)
    assert (account.lost, account.twice, account.unknown) == ([], {}, 0)
    assert condition(kubectl, flow, "Ready")[0] == "True"
    told(
        f"{account.accepted} events, 0 lost, 0 twice; p50 {account.p50 * 1000:.1f} ms, longest {account.longest:.2f} s"
    )


async def test_an_installation_of_deployments_alone(
    as_deployments: Installation, world_anywhere: World, kubectl: Kubectl, told: Told
) -> None:
    flow = world_anywhere.flow("alone", "orders")
    account = await flow.under_load("alone", EVENTS, RATE)
    assert (account.lost, account.twice, account.unknown) == ([], {}, 0)
    assert kubectl.objects("ksvc", "", OURS) == []
    with Pods(kubectl) as pods:
        pods.wait_for_rest("forward", "operator", "receive", "reconcile")
    told(
        f"{account.accepted} events, 0 lost, 0 twice; p50 {account.p50 * 1000:.1f} ms; "
        "at rest `operator`, `reconcile`, `receive`, `forward`"
    )


async def test_without_kedas_kind_a_channel_that_wants_it_is_told_so_and_delivers(
    installed: Installation, world: World, kubectl: Kubectl, told: Told
) -> None:
    flow = world.flow("no-keda", "orders", runtime="deployment", keda="true")
    until("the channel says that KEDA is not used", lambda: condition(kubectl, flow, "ScaledByKeda")[0] == "False", 60)
    assert condition(kubectl, flow, "ScaledByKeda")[1] == "KedaNotUsed"
    assert condition(kubectl, flow, "Ready")[0] == "True"
    account = await flow.under_load("no-keda", EVENTS, RATE)
    assert (account.lost, account.twice, account.unknown) == ([], {}, 0)
    told(f"KedaNotUsed (Info), the channel Ready; {account.accepted} events, 0 lost")


async def test_with_kedas_kind_forward_has_a_scaled_object(
    installed: Installation, world: World, kubectl: Kubectl, keda: None, told: Told
) -> None:
    (container,) = kubectl.get("ksvc", HOOK)["spec"]["template"]["spec"]["containers"]
    monitoring = {"name": "HEADRACE_KEDA_MONITORING", "value": MONITORING}
    of_hook(kubectl, {**container, "env": [*container["env"], monitoring]})
    flow = world.flow("keda", "orders", runtime="deployment")
    until("there is a ScaledObject", lambda: bool(scaled_of(kubectl, flow)), 90)
    (scaled,) = scaled_of(kubectl, flow)
    (trigger,) = scaled["spec"]["triggers"]
    assert trigger["type"] == "nats-jetstream"
    assert trigger["metadata"]["natsServerMonitoringEndpoint"] == MONITORING
    target = scaled["spec"]["scaleTargetRef"]["name"]
    assert kubectl.get("deployment", target)["metadata"]["labels"]["app.kubernetes.io/component"] == "forward"
    kubectl("delete", "namespace", "keda", "--timeout=100s")
    until("it goes with the channel", lambda: scaled_of(kubectl, flow) == [], 60)
    of_hook(kubectl, container)
    told("a ScaledObject of type nats-jetstream for `forward`, which goes with the channel; no KEDA runs here")

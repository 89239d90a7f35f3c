"""Installed by the commands of docs/install.md, upgraded while events flow, and taken away again: nothing is left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from infra.cluster import images, names
from infra.cluster.instance import Cluster
from tests.cluster.conftest import Told
from tests.support.cluster import previous
from tests.support.cluster.installation import Installation
from tests.support.cluster.kubectl import SYSTEM, Kubectl, until
from tests.support.cluster.load import Fault, World
from tests.support.cluster.pods import OURS
from tests.support.cluster.reach import Sender, address_of
from tests.support.nats.streams import Nats
from tests.support.programs.page import of, run_section
from tests.support.programs.repository import ROOT

UNNAMED = "registry.example/headrace"
IMAGE, _, TAG = names.HEADRACE.rpartition(":")
# An upgrade by hand takes about this long; events flow before, during and after it.
RATE, SECONDS, BEGINS = 50.0, 100.0, 10.0

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def absent(bare: Installation) -> Iterator[Installation]:
    """Nothing of Headrace before; and what a failed test has left goes, too."""
    yield bare
    if bare.is_there():
        bare.remove()


async def streams(world: World) -> list[str]:
    """Of channels, in NATS."""
    async with world.nats() as client:
        return await of_channels(client)


async def of_channels(client: Nats) -> list[str]:
    found = (await client.call("STREAM.NAMES")).get("streams") or []
    return sorted(name for name in found if name.startswith("KN_"))


def deliver_one(world: World, name: str) -> None:
    """A channel of this name, and an event through it."""
    flow = world.flow(f"install-{name}", "orders")
    send = Sender(world.kubectl, address_of(world.kubectl, "natsjetstreamchannel", "orders", f"install-{name}"))
    send.accepted("one")
    until("it is delivered", lambda: [arrival.id for arrival in flow.place.arrivals] == ["one"], 60)


async def nothing_is_left(world: World, installation: Installation) -> float:
    """Seconds after the last command of the page."""
    took = installation.wait_until_nothing_is_left()
    assert await streams(world) == []
    return took


@pytest.mark.short
async def test_installed_and_uninstalled_by_kubectl(
    absent: Installation, world_anywhere: World, kubectl: Kubectl, told: Told
) -> None:
    ready = absent.by_kubectl()
    deliver_one(world_anywhere, "kubectl")
    # As docs/cluster.md says it.
    kubectl("apply", "-f", str(ROOT / "examples" / "minimal"))
    kubectl.wait_ready("natsjetstreamchannel", "hello", "default")
    removed = absent.remove()
    left = await nothing_is_left(world_anywhere, absent)
    told(f"ready {ready:.0f} s after the first command; uninstalled in {removed:.0f} s, pods gone {left:.0f} s later")


async def test_installed_and_uninstalled_by_kustomize(absent: Installation, world_anywhere: World, told: Told) -> None:
    (mine,) = [block for block in of("kustomize") if block.kind == "yaml"]
    (command,) = [block.text for block in of("kustomize") if block.about == "run"]
    absent.shell.write(mine.about, mine.text.replace(UNNAMED, IMAGE).replace("0.1.0", TAG))
    absent.shell(command)
    absent.wait()
    deliver_one(world_anywhere, "kustomize")
    absent.remove("kustomize build mine | kubectl delete -f -")
    left = await nothing_is_left(world_anywhere, absent)
    told(f"with a folder of one's own beside `infra`; pods gone {left:.0f} s after the last command")


async def test_installed_upgraded_and_uninstalled_by_helm(
    absent: Installation, world_anywhere: World, kubectl: Kubectl, told: Told
) -> None:
    install, upgrade = of("Helm")[0].text.replace(UNNAMED, IMAGE).rsplit("helm upgrade", 1)
    absent.shell(install)
    absent.wait()
    deliver_one(world_anywhere, "helm")
    absent.shell("helm upgrade" + upgrade)
    absent.wait()
    environment = kubectl.get("deployment", "headrace-operator")["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {"name": "LOG_LEVEL", "value": "debug"} in environment
    deliver_one(world_anywhere, "helm-again")
    absent.delete_channels()
    absent.shell(of("Uninstall")[-1].text)
    left = await nothing_is_left(world_anywhere, absent)
    told(f"install, upgrade with another value, uninstall; pods gone {left:.0f} s after the last command")


async def test_an_upgrade_from_the_version_before_while_events_flow(
    absent: Installation, cluster: Cluster, world_anywhere: World, kubectl: Kubectl, told: Told
) -> None:
    images.load(cluster, previous.archive())
    kubectl(
        "create", "secret", "generic", "headrace-token", "-n", SYSTEM, f"--from-literal=token={'0123456789abcdef' * 4}"
    )
    kubectl.apply(previous.manifests())
    kubectl("rollout", "status", "deployment/headrace-operator", "-n", SYSTEM, "--timeout=120s")
    flow = world_anywhere.flow("upgraded", "orders")
    assert {pod.name.rsplit("-", 2)[0] for pod in kubectl.pods(OURS)} >= {"headrace-operator", "headrace-reconcile"}

    def upgrade() -> None:
        run_section(absent.shell, "Upgrade")
        absent.by_kubectl_again()
        absent.wait()

    account = await flow.under_load("upgrade", int(RATE * SECONDS), RATE, [Fault(BEGINS, upgrade)])
    told(
        f"{account.accepted} events, {len(account.lost)} lost, {account.again} twice, tried again {account.refusals}; "
        f"p50 {account.p50:.3f} s, longest {account.longest:.1f} s"
    )
    assert (account.lost, account.unknown, account.parked) == ([], 0, 0)
    assert account.twice == {}
    until("what the version before had is gone", lambda: of_before(kubectl) == [], 120)
    assert {image(pod) for pod in kubectl.objects("pods", SYSTEM, OURS)} == {names.HEADRACE}
    assert kubectl.condition("natsjetstreamchannel", "orders", "upgraded")[0] == "True"
    absent.remove()
    await nothing_is_left(world_anywhere, absent)


def of_before(kubectl: Kubectl) -> list[str]:
    """What only the version before has, and pods of it."""
    named = [
        one["metadata"]["name"]
        for one in (*kubectl.objects("deployments", SYSTEM, OURS), *kubectl.objects("services", SYSTEM, OURS))
    ]
    old = [name for name in named if name in ("headrace-reconcile", "headrace-receive-plain")]
    pods = [one["metadata"]["name"] for one in kubectl.objects("pods", SYSTEM, OURS) if image(one) == previous.IMAGE]
    return old + pods


def image(pod: dict[str, object]) -> str:
    """Of our container in a pod, beside which Knative may have its own."""
    spec = pod["spec"]
    assert isinstance(spec, dict)
    (found,) = [one["image"] for one in spec["containers"] if one["name"] != "queue-proxy"]
    return str(found)

"""A node without room for all pods: conditions say so, nothing is lost, and with room again it goes on by itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from infra.cluster.instance import NODE
from infra.cluster.names import PAUSE
from tests.cluster.conftest import Told
from tests.support.cluster.installation import HOOK, Installation
from tests.support.cluster.kubectl import SYSTEM, Kubectl, Pod, until
from tests.support.cluster.load import Fault, World

# What stays free, in thousandths of a processor: less than any pod of ours wants.
ROOM = 20
RATE, SECONDS = 20.0, 60.0
RECONCILE = "app.kubernetes.io/name=headrace,app.kubernetes.io/component=reconcile"
NO_ROOM = "False", "NoRoom"
FILLER = """
apiVersion: v1
kind: Pod
metadata: {{name: filler, namespace: default}}
spec:
  terminationGracePeriodSeconds: 0
  tolerations: [{{key: node.kubernetes.io/unschedulable, operator: Exists}}]
  containers: [{{name: filler, image: {image}, resources: {{requests: {{cpu: {cpu}m}}}}}}]
"""

pytestmark = pytest.mark.timeout(600)


class Node:
    """The only one there is."""

    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl = kubectl

    def fill(self, pods: list[Pod]) -> None:
        """Delete these pods, and fill their place and nearly all that is left with one that does nothing."""
        self._kubectl("cordon", NODE)
        self._kubectl.delete_pods(pods, force=True)
        allocatable = _thousandths(self._kubectl.get("node", NODE, "")["status"]["allocatable"]["cpu"])
        bound = [one for one in self._kubectl.objects("pods", "") if one["spec"].get("nodeName")]
        asked = sum(
            _thousandths(container.get("resources", {}).get("requests", {}).get("cpu", "0"))
            for one in bound
            if "deletionTimestamp" not in one["metadata"]
            for container in one["spec"]["containers"]
        )
        self._kubectl.apply(FILLER.format(image=PAUSE, cpu=allocatable - asked - ROOM))
        # What is being deleted has its place until it is gone.
        self._kubectl("wait", "--for=condition=Ready", "pod/filler", "-n", "default", "--timeout=90s")
        self._kubectl("uncordon", NODE)

    def make_room(self) -> None:
        self._kubectl("delete", "pod", "filler", "-n", "default", "--ignore-not-found")
        self._kubectl("uncordon", NODE)


@pytest.fixture
def node(kubectl: Kubectl) -> Iterator[Node]:
    found = Node(kubectl)
    yield found
    found.make_room()


@pytest.fixture
def awake(world: World, kubectl: Kubectl) -> Iterator[None]:
    """A `reconcile` that does not sleep: one for which there is no room either can tell nothing."""

    def scale(least: str) -> None:
        annotations = {"autoscaling.knative.dev/min-scale": least}
        kubectl.merge("ksvc", HOOK, {"spec": {"template": {"metadata": {"annotations": annotations}}}})
        until("one is up", lambda: least == "0" or bool(kubectl.pods(RECONCILE)), 60)
        kubectl.wait_ready("ksvc", HOOK, SYSTEM)

    scale("1")
    yield
    scale("0")


def of_functions(kubectl: Kubectl, namespace: str) -> tuple[str, str]:
    return kubectl.condition("natsjetstreamchannel", "orders", namespace, "FunctionsReady")


def ready(kubectl: Kubectl, namespace: str) -> str:
    return kubectl.condition("natsjetstreamchannel", "orders", namespace)[0]


async def test_without_room_for_forward_events_wait_and_the_channel_says_why(
    installed: Installation, world: World, kubectl: Kubectl, node: Node, awake: None, told: Told
) -> None:
    flow = world.flow("full", "orders", seconds=0.1)

    def no_room() -> None:
        node.fill(flow.pods("forward"))
        until("the channel says that there is no room", lambda: of_functions(kubectl, "full") == NO_ROOM, 60)
        # It takes events all the time.
        assert ready(kubectl, "full") == "True"

    account = await flow.under_load("full", int(RATE * SECONDS), RATE, [Fault(10, no_room), Fault(40, node.make_room)])
    until("the channel says nothing of it any more", lambda: of_functions(kubectl, "full")[0] == "True", 120)
    told(
        f"{account.accepted} events, {len(account.lost)} lost, {account.again} twice; NoRoom is told meanwhile; "
        f"caught up {account.recoveries[1].silent + account.recoveries[1].caught_up:.1f} s after there was room"
    )
    assert (account.lost, account.unknown, account.parked) == ([], 0, 0)


def _thousandths(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else int(float(text) * 1000)

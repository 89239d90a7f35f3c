"""A node without room for all pods: conditions say so, nothing is lost, and with room again it goes on by itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from infra.cluster.instance import NODE
from infra.cluster.names import PAUSE
from tests.cluster.conftest import Told
from tests.cluster.kubectl import Kubectl, until
from tests.cluster.load import Fault, World

# What stays free, in thousandths of a processor: less than any pod of ours wants.
ROOM = 20
RATE, SECONDS = 20.0, 60.0
NO_ROOM = "False", "NoRoom"
FILLER = """
apiVersion: v1
kind: Pod
metadata: {{name: filler, namespace: default}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{{name: filler, image: {image}, resources: {{requests: {{cpu: {cpu}m}}}}}}]
"""

pytestmark = pytest.mark.timeout(600)


class Node:
    """The only one there is."""

    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl = kubectl

    def fill(self) -> None:
        """With a pod that asks for nearly all that is left."""
        allocatable = _thousandths(self._kubectl.get("node", NODE, "")["status"]["allocatable"]["cpu"])
        live = [one for one in self._kubectl.list("pods", "") if one["status"]["phase"] in ("Running", "Pending")]
        asked = sum(
            _thousandths(container.get("resources", {}).get("requests", {}).get("cpu", "0"))
            for one in live
            for container in one["spec"]["containers"]
        )
        self._kubectl.apply(FILLER.format(image=PAUSE, cpu=allocatable - asked - ROOM))
        self._kubectl("wait", "--for=condition=Ready", "pod/filler", "-n", "default", "--timeout=60s")

    def make_room(self) -> None:
        self._kubectl("delete", "pod", "filler", "-n", "default", "--ignore-not-found")


@pytest.fixture
def node(kubectl: Kubectl) -> Iterator[Node]:
    found = Node(kubectl)
    yield found
    found.make_room()


def of_functions(kubectl: Kubectl, namespace: str) -> tuple[str, str]:
    return kubectl.condition("natsjetstreamchannel", "orders", namespace, "FunctionsReady")


def ready(kubectl: Kubectl, namespace: str) -> str:
    return kubectl.condition("natsjetstreamchannel", "orders", namespace)[0]


async def test_without_room_for_forward_events_wait_and_the_channel_says_why(
    world: World, kubectl: Kubectl, node: Node, told: Told
) -> None:
    flow = world.flow("full", "orders", seconds=0.1)

    def no_room() -> None:
        node.fill()
        kubectl.delete_pods(flow.pods("forward"), force=True)
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


async def test_a_subscriber_that_is_made_without_room_says_so_and_is_served_once_there_is_some(
    world: World, kubectl: Kubectl, node: Node, told: Told
) -> None:
    world.flow("full-before", "orders")
    node.fill()
    with pytest.raises(AssertionError, match="subscription full-new/orders is Ready"):
        world.flow("full-new", "orders", within=30.0)
    assert (ready(kubectl, "full-new"), of_functions(kubectl, "full-new")) == ("True", NO_ROOM)
    (subscriber,) = kubectl.get("natsjetstreamchannel", "orders", "full-new")["status"]["subscribers"]
    assert "nsufficient cpu" in subscriber["message"]
    node.make_room()
    flow = world.flow("full-new", "orders")
    account = await flow.under_load("new", 100, RATE)
    assert (account.lost, account.unknown, account.twice) == ([], 0, {})
    told(f"channel Ready, subscriber not: `{subscriber['message'][:120]}`; Ready and served once there is room")


def _thousandths(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else int(float(text) * 1000)

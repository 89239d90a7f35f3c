"""A tired operator's deeds by hand on a cluster while events flow.

Nothing is lost, it mends itself, and conditions and logs say what is the matter and no more.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable

import pytest

from infra.cluster.instance import NODE, Cluster
from tests.faults.ledger import Sent
from tests.faults.producer import Producer
from tests.support.cluster.account import Account, Fault
from tests.support.cluster.figures import Figures
from tests.support.cluster.killing import kill_daemon
from tests.support.cluster.kubectl import SYSTEM, Body, Kubectl, Refused, until
from tests.support.cluster.load import Flow, World

RATE = 50.0
HEAD = ("by hand, while events flow", "accepted", "lost", "twice", "retried", "silent s", "caught up s", "warnings")
OURS = "app.kubernetes.io/name=headrace"
RECONCILE = "headrace-hook"
OPERATOR = "headrace-operator"
# In a load of a minute or less, over all pods of ours: more is what nobody reads.
MOST_WARNINGS = 200

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def flow(world: World) -> Flow:
    return world.flow("by-hand", "orders", seconds=0.2, lag_threshold="50", max_scale="2")


@pytest.fixture
def hand(flow: Flow, figures: Figures, request: pytest.FixtureRequest) -> Hand:
    return Hand(flow, figures, request.node.name)


class Hand:
    """Runs a load, does something to the cluster meanwhile, writes a row, and says what became of the events."""

    def __init__(self, flow: Flow, figures: Figures, name: str) -> None:
        self._flow, self._figures, self._prefix = flow, figures, name

    async def __call__(self, words: str, *faults: Fault, seconds: float = 30.0) -> Account:
        began = time.monotonic()
        account = await self._flow.under_load(self._prefix, int(RATE * seconds), RATE, faults)
        told = warnings(self._flow.world.kubectl, time.monotonic() - began)
        worst = max(account.recoveries, key=lambda one: one.silent + one.caught_up)
        cells = (
            words,
            account.accepted,
            len(account.lost),
            account.again,
            account.refusals,
            worst.silent,
            worst.caught_up,
            len(told),
        )
        self._figures.row("by-hand", HEAD, cells)
        assert account.unknown == 0, "the sender has had no answer to some"
        assert account.lost == []
        assert account.parked == 0
        assert account.unexcused == []
        assert len(told) <= MOST_WARNINGS, told[:20]
        return account


def warnings(kubectl: Kubectl, seconds: float) -> list[str]:
    """What pods of ours have logged lately at the level of a warning or above."""
    found = []
    for pod in kubectl.pods(OURS):
        for container in pod.containers.keys() - {"queue-proxy"}:
            try:
                text = kubectl("logs", "-n", pod.namespace, pod.name, "-c", container, f"--since={int(seconds) + 1}s")
            except Refused:
                # Gone meanwhile.
                continue
            found += [line for line in text.splitlines() if _warns(line)]
    return found


def _warns(line: str) -> bool:
    try:
        return json.loads(line).get("level") in ("warning", "error", "critical")
    except ValueError:
        # A traceback, or something else that is no line of ours.
        return True


def bare(body: Body) -> str:
    """An object as somebody would have kept it in a file."""
    kept = {key: body["metadata"].get(key, {}) for key in ("name", "namespace", "labels", "annotations")}
    kept["annotations"] = {key: text for key, text in kept["annotations"].items() if "serving.knative.dev/" not in key}
    whole = {key: part for key, part in body.items() if key not in ("status", "metadata")}
    if whole["kind"] == "Service":
        for key in ("clusterIP", "clusterIPs"):
            whole["spec"].pop(key, None)
    return json.dumps({**whole, "metadata": kept})


def services(flow: Flow) -> list[str]:
    """Names of the Knative Services that serve this channel."""
    ours = f"{flow.channel.namespace}/{flow.channel.name}"
    listed = flow.world.kubectl.objects("ksvc", SYSTEM, f"{OURS},app.kubernetes.io/component in (receive,forward)")
    return [
        one["metadata"]["name"]
        for one in listed
        if one["metadata"].get("annotations", {}).get("headrace.dev/channel", ours) == ours
    ]


def ready(flow: Flow, seconds: float = 120.0) -> None:
    """Wait until the channel, its Subscription and its functions say that they are Ready."""
    kubectl, (namespace, name) = flow.world.kubectl, (flow.channel.namespace, flow.channel.name)
    kubectl.wait_ready("natsjetstreamchannel", name, namespace, seconds)
    kubectl.wait_ready("subscription", name, namespace, seconds)
    for service in services(flow):
        kubectl.wait_ready("ksvc", service, SYSTEM, seconds)


async def test_knative_services_of_ours_that_are_deleted_come_again(hand: Hand, flow: Flow) -> None:
    kubectl, before = flow.world.kubectl, sorted(services(flow))
    assert len(before) == 2

    def delete() -> None:
        kubectl("delete", "ksvc", "-n", SYSTEM, "--wait=false", *before)

    await hand("all Knative Services of ours deleted", Fault(8, delete))
    until("they are there again", lambda: sorted(services(flow)) == before)
    ready(flow)


async def test_children_that_are_edited_are_put_right(hand: Hand, flow: Flow) -> None:
    kubectl = flow.world.kubectl

    def specs() -> dict[str, Body]:
        return {name: kubectl.get("ksvc", name)["spec"]["template"]["spec"] for name in services(flow)}

    wanted = specs()
    assert len(wanted) == 2

    def edit() -> None:
        for name in wanted:
            kubectl.merge("ksvc", name, {"spec": {"template": {"spec": {"containerConcurrency": 7}}}})

    await hand("the Knative Services of ours edited", Fault(8, edit))
    until("they are as they were", lambda: specs() == wanted)
    ready(flow)


async def test_without_reconcile_events_flow_and_edits_wait(hand: Hand, flow: Flow) -> None:
    kubectl = flow.world.kubectl
    kept = bare(kubectl.get("ksvc", RECONCILE))

    def delete() -> None:
        kubectl("delete", "ksvc", RECONCILE, "-n", SYSTEM)

    await hand("`reconcile` deleted for 15 s", Fault(5, delete), Fault(20, lambda: kubectl.apply(kept)))
    other = flow.world.flow(flow.channel.namespace, "made-after", seconds=0.0)
    assert other.channel.name == "made-after"
    ready(flow)


async def test_on_a_cordoned_node_events_wait_for_room(hand: Hand, flow: Flow) -> None:
    kubectl = flow.world.kubectl

    def cordon() -> None:
        kubectl("cordon", NODE)
        kubectl.delete_pods(flow.pods("forward"))

    await hand(
        "node cordoned and `forward` deleted, for 15 s", Fault(6, cordon), Fault(21, lambda: kubectl("uncordon", NODE))
    )
    ready(flow)


async def test_without_its_token_nothing_is_lost_and_a_new_one_is_learnt(hand: Hand, flow: Flow) -> None:
    kubectl = flow.world.kubectl
    kept = kubectl.get("secret", "headrace-token")

    def put_back() -> None:
        kubectl.apply(bare(kept))

    def change() -> None:
        kubectl(
            "patch", "secret", "headrace-token", "-n", SYSTEM, "-p", json.dumps({"stringData": {"token": "f" * 64}})
        )

    await hand(
        "Secret `headrace-token` deleted for 10 s, then another token in it",
        Fault(5, lambda: kubectl("delete", "secret", "headrace-token", "-n", SYSTEM)),
        Fault(15, put_back),
        Fault(25, change),
        seconds=60,
    )
    ready(flow, 240)


@pytest.mark.parametrize("program", ["containerd", "kube-apiserver", "kubelet"])
async def test_a_program_of_the_node_is_killed(program: str, hand: Hand, flow: Flow, cluster: Cluster) -> None:
    account = await hand(f"SIGKILL of {program}", Fault(8, lambda: kill_daemon(cluster, program)))
    assert account.twice == {}
    ready(flow)


async def test_a_bad_image_is_told_of_and_takes_no_traffic(hand: Hand, flow: Flow) -> None:
    kubectl = flow.world.kubectl
    environment = kubectl.get("ksvc", RECONCILE)["spec"]["template"]["spec"]["containers"][0]["env"]
    at = [one["name"] for one in environment].index("HEADRACE_IMAGE")
    image, path = environment[at]["value"], f"/spec/template/spec/containers/0/env/{at}/value"

    def to(name: str) -> Callable[[], object]:
        patch = json.dumps([{"op": "replace", "path": path, "value": name}])
        return lambda: kubectl("patch", "ksvc", RECONCILE, "-n", SYSTEM, "--type=json", "-p", patch)

    await hand(
        "HEADRACE_IMAGE names an image that is nowhere, for 25 s",
        Fault(5, to(f"{image}-nowhere")),
        Fault(30, to(image)),
        seconds=50,
    )
    ready(flow)


async def test_functions_and_operator_that_are_scaled_to_nothing_by_hand(hand: Hand, flow: Flow) -> None:
    kubectl = flow.world.kubectl
    replicas = kubectl.get("deployment", OPERATOR)["spec"]["replicas"]

    def scale(count: int) -> Callable[[], object]:
        return lambda: kubectl("scale", f"deployment/{OPERATOR}", "-n", SYSTEM, f"--replicas={count}")

    def zero() -> None:
        for one in kubectl.objects("deployments", SYSTEM, OURS):
            if one["metadata"]["name"].endswith("-deployment"):
                kubectl("scale", f"deployment/{one['metadata']['name']}", "-n", SYSTEM, "--replicas=0")

    await hand(
        "functions scaled to 0, then the operator for 10 s",
        Fault(5, zero),
        Fault(15, scale(0)),
        Fault(25, scale(replicas)),
        seconds=40,
    )
    ready(flow)


async def test_a_namespace_that_is_deleted_while_events_flow_goes_with_all_that_is_in_it(world: World) -> None:
    """Its events go with it, as whoever deletes it wants; what must not be is a namespace that never ends."""
    flow = world.flow("by-hand-gone", "orders")
    kubectl, sent, began = world.kubectl, Sent(), time.monotonic()
    url, headers = world.url(flow.channel)
    producer = Producer(url, sent, try_seconds=10.0, patience=5.0)
    sending = asyncio.create_task(
        producer.send([f"gone-{number}" for number in range(1500)], rate=RATE, headers=headers)
    )
    await asyncio.sleep(8)
    await asyncio.to_thread(kubectl, "delete", "namespace", "by-hand-gone", "--timeout=90s")
    await sending
    assert 404 in sent.refused.values(), "whoever still sends is told that there is no such channel"
    async with world.nats() as client:
        streams = (await client.call("STREAM.NAMES")).get("streams") or []
    assert [name for name in streams if name.startswith(("KN_BY_HAND_GONE__", flow.channel.stream))] == []
    until("its functions are gone", lambda: not flow.pods("forward"))
    assert len(told := warnings(kubectl, time.monotonic() - began)) <= MOST_WARNINGS, told[:20]

"""Events through everything that Knative makes of channels: each wanted one arrives, once, and no other."""

from __future__ import annotations

import pytest

from tests.cluster.conftest import Told
from tests.faults.sink import Place
from tests.support.cluster.kubectl import Kubectl, until
from tests.support.cluster.load import World
from tests.support.cluster.reach import Sender, address_of
from tests.support.cluster.subscribers import RELAY, answering, relay
from tests.support.programs.page import Shell, run_section

EVENTS = 20
ORDERS = """
apiVersion: messaging.knative.dev/v1alpha1
kind: NatsJetStreamChannel
metadata: {{name: orders, namespace: {namespace}}}
---
apiVersion: messaging.knative.dev/v1
kind: Subscription
metadata: {{name: orders, namespace: {namespace}}}
spec:
  channel: {{apiVersion: messaging.knative.dev/v1alpha1, kind: NatsJetStreamChannel, name: orders}}
  subscriber: {{ref: {{apiVersion: serving.knative.dev/v1, kind: Service, name: {relay}}}}}
  delivery: {{retry: 5, backoffPolicy: exponential, backoffDelay: PT0.2S}}
"""
BROKER = """
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata:
  name: shop
  namespace: {namespace}
  annotations: {{eventing.knative.dev/broker.class: MTChannelBasedBroker}}
---
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {{name: wanted, namespace: {namespace}}}
spec:
  broker: shop
  filters: [{{exact: {{type: shop.wanted}}}}]
  subscriber: {{uri: "{wanted}"}}
---
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {{name: all, namespace: {namespace}}}
spec:
  broker: shop
  subscriber: {{uri: "{all}"}}
"""
SEQUENCE = """
apiVersion: flows.knative.dev/v1
kind: Sequence
metadata: {{name: steps, namespace: {namespace}}}
spec:
  steps: [{{uri: "{first}"}}, {{uri: "{second}"}}]
  reply: {{uri: "{reply}"}}
"""
PARALLEL = """
apiVersion: flows.knative.dev/v1
kind: Parallel
metadata: {{name: branches, namespace: {namespace}}}
spec:
  branches:
    - {{subscriber: {{uri: "{left}"}}, reply: {{uri: "{own}"}}}}
    - {{subscriber: {{uri: "{right}"}}}}
    - {{filter: {{uri: "{never}"}}, subscriber: {{uri: "{closed}"}}}}
  reply: {{uri: "{reply}"}}
"""
CHANNEL = """
apiVersion: messaging.knative.dev/v1
kind: Channel
metadata: {{name: plain, namespace: {namespace}}}
---
apiVersion: messaging.knative.dev/v1
kind: Subscription
metadata: {{name: plain, namespace: {namespace}}}
spec:
  channel: {{apiVersion: messaging.knative.dev/v1, kind: Channel, name: plain}}
  subscriber: {{uri: "{subscriber}"}}
"""

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def by_default(shell: Shell, kubectl: Kubectl, world: World) -> None:
    """Knative's ConfigMaps name our kind, by the page's commands."""
    run_section(shell, "Knative's default channel")
    # Knative's webhook sees the ConfigMap a moment later.
    dry = ["create", "--dry-run=server", "-o", "jsonpath={.spec.channelTemplate.kind}", "-f", "-"]
    made = CHANNEL.format(namespace="default", subscriber="http://nobody.example").partition("---")[0]
    until("a Channel without a kind is one of ours", lambda: kubectl(*dry, given=made) == "NatsJetStreamChannel")


def ids(place: Place) -> list[str]:
    return sorted(arrival.id for arrival in place.arrivals)


def expect(place: Place, wanted: list[str]) -> None:
    """Each of these came, once, and nothing else."""
    until(f"{len(wanted)} events are at {place.path}", lambda: len(set(ids(place))) >= len(wanted), 60)
    assert ids(place) == sorted(wanted)


@pytest.mark.short
def test_a_first_channel_delivers_to_a_knative_service_that_was_at_zero(
    world: World, namespace: str, kubectl: Kubectl, told: Told
) -> None:
    place = world.sink.place(f"/{namespace}/first")
    kubectl.apply(relay(namespace, "first", world.sink.uri(place.path)))
    kubectl.apply(ORDERS.format(namespace=namespace, relay="first"))
    channel = kubectl.wait_ready("natsjetstreamchannel", "orders", namespace)
    subscription = channel + kubectl.wait_ready("subscription", "orders", namespace)
    kubectl.wait_ready("ksvc", "first", namespace)
    at_zero(kubectl, namespace)
    send = Sender(kubectl, address_of(kubectl, "natsjetstreamchannel", "orders", namespace))
    posted = send.accepted("first-0")
    until("it is delivered", lambda: bool(place.arrivals), 60)
    first = place.arrivals[0].at - posted.at
    wanted = [f"first-{number}" for number in range(EVENTS)]
    for id in wanted[1:]:
        send.accepted(id)
    expect(place, wanted)
    told(
        f"channel Ready {channel:.1f} s, Subscription {subscription:.1f} s after apply; "
        f"first event, all at zero, the subscriber too: {first:.1f} s"
    )


def at_zero(kubectl: Kubectl, namespace: str) -> None:
    """Until no pod of the subscriber is up."""
    until("the subscriber is at zero", lambda: not kubectl.pods(f"app={RELAY}", namespace), 120)


@pytest.mark.short
def test_a_broker_delivers_what_its_triggers_want_and_nothing_else(
    world: World, namespace: str, kubectl: Kubectl, by_default: None, told: Told
) -> None:
    wanted, everything = (world.sink.place(f"/{namespace}/{name}") for name in ("wanted", "all"))
    uris = {"wanted": world.sink.uri(wanted.path), "all": world.sink.uri(everything.path)}
    kubectl.apply(BROKER.format(namespace=namespace, **uris))
    ready = kubectl.wait_ready("broker", "shop", namespace)
    ready += sum(kubectl.wait_ready("trigger", name, namespace) for name in ("wanted", "all"))
    assert [one["kind"] for one in kubectl.objects("natsjetstreamchannels", namespace)] == ["NatsJetStreamChannel"]
    send = Sender(kubectl, address_of(kubectl, "broker", "shop", namespace))
    for number in range(EVENTS):
        send.accepted(f"yes-{number}", "shop.wanted")
        send.accepted(f"no-{number}", "shop.other")
    yes, no = ([f"{word}-{number}" for number in range(EVENTS)] for word in ("yes", "no"))
    expect(everything, yes + no)
    expect(wanted, yes)
    told(f"Broker and Triggers Ready {ready:.1f} s after apply; {EVENTS} of {2 * EVENTS} pass the filter")


def test_a_sequence_goes_through_its_steps_in_order(
    world: World, namespace: str, kubectl: Kubectl, by_default: None, told: Told
) -> None:
    first, second, reply = (world.sink.place(f"/{namespace}/{name}") for name in ("first", "second", "reply"))
    first.decide, second.decide = answering("t.first"), answering("t.second")
    uris = {place.path.rpartition("/")[2]: world.sink.uri(place.path) for place in (first, second, reply)}
    kubectl.apply(SEQUENCE.format(namespace=namespace, **uris))
    ready = kubectl.wait_ready("sequence", "steps", namespace)
    send = Sender(kubectl, address_of(kubectl, "sequence", "steps", namespace))
    wanted = [f"s-{number}" for number in range(EVENTS)]
    for id in wanted:
        send.accepted(id, "t.sent")
    expect(reply, wanted)
    expect(second, wanted)
    expect(first, wanted)
    types = [{arrival.headers["ce-type"] for arrival in place.arrivals} for place in (first, second, reply)]
    assert types == [{"t.sent"}, {"t.first"}, {"t.second"}]
    told(f"Ready {ready:.1f} s after apply; {EVENTS} events through two steps and out")


def test_a_parallel_feeds_each_branch_whose_filter_lets_it(
    world: World, namespace: str, kubectl: Kubectl, by_default: None, told: Told
) -> None:
    names = ("left", "right", "own", "reply", "never", "closed")
    places = {name: world.sink.place(f"/{namespace}/{name}") for name in names}
    places["left"].decide, places["right"].decide = answering("t.left"), answering("t.right")
    uris = {name: world.sink.uri(place.path) for name, place in places.items()}
    kubectl.apply(PARALLEL.format(namespace=namespace, **uris))
    ready = kubectl.wait_ready("parallel", "branches", namespace)
    send = Sender(kubectl, address_of(kubectl, "parallel", "branches", namespace))
    wanted = [f"p-{number}" for number in range(EVENTS)]
    for id in wanted:
        send.accepted(id, "t.sent")
    for name in ("left", "right", "own", "reply", "never"):
        expect(places[name], wanted)
    assert {arrival.headers["ce-type"] for arrival in places["own"].arrivals} == {"t.left"}
    assert {arrival.headers["ce-type"] for arrival in places["reply"].arrivals} == {"t.right"}
    # A filter that answers with no event lets nothing through.
    assert places["closed"].arrivals == []
    told(f"Ready {ready:.1f} s after apply; three branches, one of them closed by its filter")


def test_a_channel_that_names_no_kind_is_one_of_ours(
    world: World, namespace: str, kubectl: Kubectl, by_default: None, told: Told
) -> None:
    place = world.sink.place(f"/{namespace}/plain")
    kubectl.apply(CHANNEL.format(namespace=namespace, subscriber=world.sink.uri(place.path)))
    ready = kubectl.wait_ready("channel.messaging.knative.dev", "plain", namespace)
    ready += kubectl.wait_ready("subscription", "plain", namespace)
    backing = kubectl.get("natsjetstreamchannel", "plain", namespace)
    assert backing["metadata"]["ownerReferences"][0]["kind"] == "Channel"
    send = Sender(kubectl, address_of(kubectl, "channel.messaging.knative.dev", "plain", namespace))
    wanted = [f"c-{number}" for number in range(EVENTS)]
    for id in wanted:
        send.accepted(id)
    expect(place, wanted)
    told(f"Channel and Subscription Ready {ready:.1f} s after apply")

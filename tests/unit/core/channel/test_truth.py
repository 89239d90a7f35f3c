"""The fate of consumers where the Subscriptions themselves are known, while the list of entries lies."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from headrace.core.channel import binding, consumer, truth
from headrace.core.channel.binding import Binding
from headrace.core.channel.leaving import Leaver, LeavingTerms
from headrace.core.channel.truth import Subscription, Truth
from headrace.core.delivery.order_spec import DeliveryOrder
from headrace.core.delivery.subscriber import Subscriber, SubscriberState
from headrace.core.manifest import manifest
from headrace.core.manifest.consumer_spec import ConsumerTemplate
from tests.support.functions.channels import channel, entry
from tests.support.kube.flapping import GRACE, NOON, PLACE, STREAM, Server, entry_of, subscription

BILLING, MAIL = "KN_SUB_AAAA1", "KN_SUB_BBBB2"
ONE, TWO = subscription("aaaa-1"), subscription("bbbb-2", "mail")


def known(*subscriptions: Subscription, complete: bool = True, absent: Iterable[str] = ()) -> Truth:
    return Truth({one.uid: one for one in subscriptions}, complete, frozenset(absent))


def step(
    server: Server, entries: list[dict[str, Any]], asked: Truth, seconds: float = 0
) -> tuple[dict[str, Binding], dict[str, Leaver]]:
    """Decide, and do it; bindings by uid and leavers by durable name."""
    rows = consumer.rows(manifest.parse(channel(*entries)), STREAM, asked)
    terms = LeavingTerms(PLACE, ConsumerTemplate(), (), GRACE, NOON + timedelta(seconds=seconds), asked)
    bindings, leavers = binding.consumers(rows, server.consumers.values(), terms)
    server.carry_out(bindings, leavers)
    return {one.uid: one for one in bindings}, {one.durable: one for one in leavers}


@pytest.fixture
def server() -> Server:
    """Two Subscriptions, each with its entry and its consumer."""
    server = Server()
    step(server, [entry("aaaa-1"), entry("bbbb-2", "mail")], known(ONE, TWO))
    assert server.ready() == {"aaaa-1": BILLING, "bbbb-2": MAIL}
    return server


def test_a_live_subscription_whose_entry_has_vanished_goes_on(server: Server) -> None:
    before = dict(server.consumers)

    bindings, leavers = step(server, [entry("bbbb-2", "mail")], known(ONE, TWO))

    assert server.consumers == before
    assert leavers == {}
    assert bindings["aaaa-1"].subscriber == server.serving()[BILLING]
    # Behind those that have an entry.
    assert list(bindings) == ["bbbb-2", "aaaa-1"]


def test_what_is_there_counts_without_proof_that_it_is_all(server: Server) -> None:
    step(server, [], known(ONE, complete=False))

    assert server.ready() == {"aaaa-1": BILLING}
    assert server.serving()[MAIL].state is SubscriberState.GONE


def test_one_that_was_taken_for_gone_is_delivered_to_again_without_its_entry(server: Server) -> None:
    step(server, [], Truth())
    assert server.ready() == {}

    step(server, [], known(ONE, TWO))

    assert server.ready() == {"aaaa-1": BILLING, "bbbb-2": MAIL}


def test_a_refused_one_that_was_taken_for_gone_is_refused_still() -> None:
    server = Server()
    step(server, [entry("aaaa-1", subscriberUri="ftp://x/")], known(ONE))
    step(server, [], Truth())

    step(server, [], known(ONE))

    assert server.serving()[BILLING].state is SubscriberState.REFUSED


def test_an_entry_without_a_subscription_is_not_delivered_to_and_is_pruned_once_that_is_certain() -> None:
    server = Server()

    bindings, _ = step(server, [entry("aaaa-1")], known())
    assert server.consumers == {}
    assert bindings["aaaa-1"].undecided
    assert bindings["aaaa-1"].question == truth.reference("aaaa-1", "shop", "billing")
    assert not bindings["aaaa-1"].prune

    bindings, _ = step(server, [entry("aaaa-1")], known(absent=["aaaa-1"]))
    assert server.consumers == {}
    assert bindings["aaaa-1"].prune
    assert bindings["aaaa-1"].question is None
    assert "leftover" in bindings["aaaa-1"].problem


def test_an_entry_whose_subscription_comes_late_is_not_pruned() -> None:
    server = Server()

    bindings, _ = step(server, [entry("aaaa-1")], known(ONE, absent=["aaaa-1"]))

    assert not bindings["aaaa-1"].prune
    assert server.ready() == {"aaaa-1": BILLING}


def test_a_nameless_leftover_is_told_of_and_left_alone() -> None:
    bindings, _ = step(Server(), [entry("aaaa-1", name="", subscriberUri="http://a/")], known())

    assert bindings["aaaa-1"].question is None
    assert not bindings["aaaa-1"].prune
    assert "give the entry its name" in bindings["aaaa-1"].problem


def test_the_consumer_of_a_leftover_stops_at_once_and_goes_after_its_grace(server: Server) -> None:
    entries = [entry("aaaa-1"), entry("bbbb-2", "mail")]

    _, leavers = step(server, entries, known(TWO))
    assert server.ready() == {"bbbb-2": MAIL}
    assert leavers[BILLING].left == GRACE

    step(server, entries, known(TWO, absent=["aaaa-1"]), seconds=59)
    assert BILLING in server.consumers

    step(server, entries, known(TWO, absent=["aaaa-1"]), seconds=60)
    assert set(server.consumers) == {MAIL}


def test_a_consumer_goes_only_when_the_api_server_itself_has_said_so(server: Server) -> None:
    step(server, [entry_of(TWO)], known(TWO))

    _, leavers = step(server, [entry_of(TWO)], known(TWO), seconds=3600)
    assert leavers[BILLING].question == truth.reference("aaaa-1", "shop", "billing")
    assert BILLING in server.consumers

    _, leavers = step(server, [entry_of(TWO)], known(TWO, absent=["aaaa-1"]), seconds=3600)
    assert leavers[BILLING].question is None
    assert BILLING not in server.consumers


def test_without_proof_a_consumer_goes_after_its_grace_as_it_does_on_a_laptop(server: Server) -> None:
    step(server, [], known(TWO, complete=False))

    step(server, [], known(TWO, complete=False), seconds=60)

    assert set(server.consumers) == {MAIL}


def test_a_subscription_that_is_being_deleted_is_served_while_it_has_an_entry(server: Server) -> None:
    going = replace(ONE, going=True)

    step(server, [entry("aaaa-1")], known(going, TWO))
    assert "aaaa-1" in server.ready()

    step(server, [], known(going, TWO))
    assert "aaaa-1" not in server.ready()
    assert server.serving()[BILLING].state is SubscriberState.GONE


def test_one_that_is_made_again_takes_over_while_the_old_entry_is_still_there(server: Server) -> None:
    again = subscription("cccc-3")
    births = dict(server.births)

    step(server, [entry("aaaa-1"), entry("cccc-3"), entry_of(TWO)], known(again, TWO))

    assert server.ready() == {"cccc-3": BILLING, "bbbb-2": MAIL}
    assert server.births == births


def test_a_consumer_waits_beyond_its_grace_for_the_entry_of_one_that_was_made_again(server: Server) -> None:
    again = subscription("cccc-3")
    step(server, [entry_of(TWO)], known(again, TWO))

    _, leavers = step(server, [entry_of(TWO)], known(again, TWO, absent=["aaaa-1"]), seconds=3600)
    assert leavers[BILLING].question is None
    assert BILLING in server.consumers

    step(server, [entry("cccc-3"), entry_of(TWO)], known(again, TWO), seconds=7200)
    assert server.ready()["cccc-3"] == BILLING


def test_one_of_the_name_that_is_for_another_channel_takes_nothing_over(server: Server) -> None:
    elsewhere = subscription("cccc-3", channel=("shop", "returns"))
    step(server, [entry_of(TWO)], known(elsewhere, TWO))

    step(server, [entry_of(TWO)], known(elsewhere, TWO, absent=["aaaa-1"]), seconds=60)

    assert BILLING not in server.consumers


def test_two_links_of_one_name_from_two_namespaces_are_told_apart() -> None:
    server = Server()
    here, there = subscription("aaaa-1"), subscription("bbbb-2", namespace="ops")
    step(server, [entry("aaaa-1"), entry("bbbb-2")], known(here, there))
    assert server.serving()[MAIL].full_name == "ops/billing"

    again = subscription("cccc-3", namespace="ops")
    step(server, [entry("aaaa-1"), entry("cccc-3")], known(here, again))

    assert server.ready() == {"aaaa-1": BILLING, "cccc-3": MAIL}


def test_a_live_subscription_of_another_namespace_is_not_robbed_while_its_entry_has_vanished() -> None:
    server = Server()
    step(server, [entry("bbbb-2")], Truth())
    assert server.serving()[MAIL].full_name == "shop/billing", "whose it is was not known yet"

    there, here = subscription("bbbb-2", namespace="ops"), subscription("cccc-3")
    step(server, [entry("cccc-3")], known(there, here))

    assert server.ready() == {"bbbb-2": MAIL, "cccc-3": "KN_SUB_CCCC3"}


def test_of_two_consumers_for_one_subscription_one_stays(server: Server) -> None:
    twin = {**server.consumers[BILLING], "name": "KN_SUB_TWIN", "durable_name": "KN_SUB_TWIN"}
    server.consumers["KN_SUB_TWIN"] = twin

    step(server, [entry("aaaa-1")], known(ONE, TWO))
    assert server.ready()["aaaa-1"] == BILLING
    step(server, [entry("aaaa-1")], known(ONE, TWO), seconds=60)

    assert set(server.consumers) == {BILLING, MAIL}


@pytest.mark.parametrize(
    ("entry_generation", "subscription_generation", "served"),
    [
        pytest.param(4, 5, 5, id="an entry that fell back"),
        pytest.param(5, 5, 5, id="as it was"),
        pytest.param(6, 6, 6, id="a newer one"),
        pytest.param(6, 5, 6, id="a newer one that the cache has not seen"),
        pytest.param(5, 6, 5, id="one that Knative has not written yet"),
    ],
)
def test_the_newest_generation_that_was_ever_written_is_served(
    entry_generation: int, subscription_generation: int, served: int
) -> None:
    server = Server()
    step(server, [entry_of(subscription("aaaa-1", generation=5))], known(subscription("aaaa-1", generation=5)))

    bindings, _ = step(
        server,
        [entry_of(subscription("aaaa-1", generation=entry_generation))],
        known(subscription("aaaa-1", generation=subscription_generation)),
    )

    subscriber = server.serving()[BILLING]
    assert subscriber.subscriber is not None
    assert (subscriber.generation, subscriber.subscriber.uri) == (served, f"http://billing/{served}")
    assert bindings["aaaa-1"].generation == served


def test_within_a_generation_the_last_word_counts(server: Server) -> None:
    # The channel's own delivery is copied into entries without a new generation; Knative mends what falls back.
    step(server, [entry("aaaa-1", delivery={"retry": 9})], known(ONE, TWO))

    assert server.serving()[BILLING].policy.retry == 9


ANNOTATED: list[Any] = [
    pytest.param({"headrace.dev/max-scale": "9"}, lambda one: one.max_scale == 9, id="max-scale"),
    pytest.param({"headrace.dev/lag-threshold": "50"}, lambda one: one.lag_threshold == 50, id="lag-threshold"),
    pytest.param(
        {"headrace.dev/delivery-order": "by-key", "headrace.dev/order-key": "tenant"},
        lambda one: (one.order.kind, one.order.key) == (DeliveryOrder.BY_KEY, "tenant"),
        id="order",
    ),
    pytest.param(
        {"headrace.dev/max-scale": "many"},
        lambda one: (
            one.state is SubscriberState.REFUSED
            and one.reason
            == "Subscription shop/billing: metadata.annotations[headrace.dev/max-scale] is 'many': "
            "it should be a whole number from 1"
        ),
        id="a wrong value",
    ),
]


@pytest.mark.parametrize(("annotations", "holds"), ANNOTATED)
def test_the_annotations_of_a_subscription_are_its_subscribers(
    annotations: dict[str, str], holds: Callable[[Subscriber], bool]
) -> None:
    server = Server()

    step(server, [entry("aaaa-1"), entry_of(TWO)], known(replace(ONE, annotations=annotations), TWO))

    assert holds(server.serving()[BILLING])
    assert server.serving()[MAIL].max_scale == 4
    assert server.serving()[MAIL].state is SubscriberState.READY

"""Which consumer serves which entry, and which has to go, while the list of entries lies."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.channel import binding, consumer, stream_config
from headrace.core.channel.binding import Binding
from headrace.core.channel.leaving import Leaver, LeavingTerms
from headrace.core.channel.truth import Subscription, Truth
from headrace.core.delivery.subscriber import METADATA_KEY, Subscriber, SubscriberState, from_metadata
from headrace.core.manifest import manifest
from headrace.core.manifest.consumer_spec import ConsumerTemplate
from headrace.core.manifest.manifest import Metadata
from headrace.core.nats.action import Action, CreateConsumer, DeleteConsumer, PurgeSubjects, UpdateConsumer
from headrace.core.raw_config import Config
from tests.support.functions.channels import channel, entry

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
STREAM, ASIDE = "KN_SHOP__ORDERS", "KN_SHOP__ORDERS_aside"
BILLING, MAIL = "KN_SUB_AAAA1", "KN_SUB_BBBB2"

PLACE = stream_config.place(Metadata(name="orders", namespace="shop"), "", "default")
TERMS = LeavingTerms(PLACE, ConsumerTemplate(), (), timedelta(seconds=60), NOON)


def bind(
    entries: list[dict[str, Any]], observed: Mapping[str, Config], terms: LeavingTerms = TERMS
) -> tuple[tuple[Binding, ...], tuple[Leaver, ...]]:
    rows = consumer.rows(manifest.parse(channel(*entries)), STREAM)
    return binding.consumers(rows, observed.values(), terms)


def actions_of(bindings: tuple[Binding, ...], leavers: tuple[Leaver, ...]) -> list[Action]:
    return [action for leaver in leavers for action in leaver.actions] + [
        action for binding in bindings for action in binding.actions
    ]


def carried_out(
    bindings: tuple[Binding, ...], leavers: tuple[Leaver, ...], observed: Mapping[str, Config]
) -> dict[str, Config]:
    """What the server has after all actions."""
    now = dict(observed)
    for action in actions_of(bindings, leavers):
        match action:
            case CreateConsumer(_, config):
                assert config["name"] not in now, "a consumer is created that exists"
                now[config["name"]] = config
            case UpdateConsumer(_, config):
                assert config["name"] in now, "a consumer is updated that does not exist"
                now[config["name"]] = config
            case DeleteConsumer(_, name):
                del now[name]
    return now


def after(*steps: list[dict[str, Any]], seconds: float = 0) -> dict[str, Config]:
    """What the server has after these lists of entries, one after the other."""
    observed: dict[str, Config] = {}
    for number, entries in enumerate(steps):
        terms = replace(TERMS, now=NOON + timedelta(seconds=seconds * number))
        observed = carried_out(*bind(entries, observed, terms), observed)
    return observed


def serves(config: Config) -> Subscriber:
    found = from_metadata(config["metadata"])
    assert found is not None
    return found


def test_a_new_entry_gets_a_consumer_without_old_stage_records() -> None:
    ((billing,), leavers) = bind([entry()], {})

    assert leavers == ()
    purge, create = billing.actions
    assert purge == PurgeSubjects(ASIDE, f"shop.orders._knative_aside.stage.{BILLING}.>")
    assert isinstance(create, CreateConsumer)
    assert (create.stream, create.config["name"], billing.durable) == (STREAM, BILLING, BILLING)


def test_what_is_as_wanted_is_left_alone() -> None:
    observed = after([entry("aaaa-1"), entry("bbbb-2", "mail")])

    bindings, leavers = bind([entry("aaaa-1"), entry("bbbb-2", "mail")], observed)

    assert [one.actions for one in bindings] == [(), ()]
    assert leavers == ()


def test_a_flapping_list_changes_nothing_in_the_end() -> None:
    flapped = after([entry()], [], [entry()], [], [entry()], seconds=0.5)

    assert flapped == after([entry()])


def test_a_consumer_goes_when_its_grace_is_over_and_not_before() -> None:
    gone = after([entry()], [])
    assert serves(gone[BILLING]).state is SubscriberState.GONE

    def left(seconds: float) -> Leaver:
        _, (leaver,) = bind([], gone, replace(TERMS, now=NOON + timedelta(seconds=seconds)))
        return leaver

    assert left(0) == Leaver(BILLING, (), timedelta(seconds=60), serves(gone[BILLING]))
    assert left(59.5) == Leaver(BILLING, (), timedelta(seconds=0.5), serves(gone[BILLING]))
    assert left(60) == Leaver(
        BILLING,
        (
            DeleteConsumer(STREAM, BILLING),
            PurgeSubjects(ASIDE, f"shop.orders._knative_aside.stage.{BILLING}.>"),
        ),
        timedelta(),
    )


def test_without_a_grace_a_consumer_goes_at_once() -> None:
    _, (leaver,) = bind([], after([entry()]), replace(TERMS, grace=timedelta()))

    assert leaver.actions[0] == DeleteConsumer(STREAM, BILLING)


@pytest.mark.parametrize(
    "since",
    [
        None,
        "",
        "yesterday",
        "2026-01-31T12:00:00",
        pytest.param("2026-01-31T13:10:00+00:00", id="by a clock that is ahead of ours"),
    ],
)
def test_a_grace_whose_begin_is_damaged_begins_now(since: str | None) -> None:
    (config,) = after([entry()], []).values()
    damaged = replace(serves(config), gone_since=since)
    observed = {**config, "metadata": {**config["metadata"], METADATA_KEY: damaged.to_json()}}

    _, (leaver,) = bind([], {BILLING: observed}, replace(TERMS, now=NOON + timedelta(hours=1)))

    (update,) = leaver.actions
    assert isinstance(update, UpdateConsumer)
    assert serves(update.config).gone_since == "2026-01-31T13:00:00+00:00"


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([[entry("aaaa-1")], [entry("cccc-3")]], id="in one step"),
        pytest.param([[entry("aaaa-1")], [], [entry("cccc-3")]], id="after it was gone"),
        pytest.param([[entry("aaaa-1")], [entry("cccc-3")], [entry("aaaa-1")], [entry("cccc-3")]], id="to and fro"),
    ],
)
def test_a_consumer_is_taken_over_by_name_and_keeps_its_own(steps: list[list[dict[str, Any]]]) -> None:
    observed = after(*steps)

    assert observed.keys() == {BILLING}
    assert (serves(observed[BILLING]).uid, serves(observed[BILLING]).state) == ("cccc-3", SubscriberState.READY)


def test_a_name_that_two_newcomers_bear_says_nothing() -> None:
    observed = after([entry("aaaa-1")], [entry("cccc-3"), entry("dddd-4")])

    assert observed.keys() == {BILLING, "KN_SUB_CCCC3", "KN_SUB_DDDD4"}
    assert serves(observed[BILLING]).state is SubscriberState.GONE


def test_a_consumer_that_is_delivered_to_is_taken_over_before_one_that_is_going() -> None:
    observed = after([entry("aaaa-1"), entry("bbbb-2")], [entry("bbbb-2")], [entry("cccc-3")])

    assert serves(observed[MAIL]).uid == "cccc-3"
    assert serves(observed[BILLING]).state is SubscriberState.GONE


def test_a_nameless_entry_takes_nothing_over() -> None:
    observed = after([entry("aaaa-1", name="", subscriberUri="http://a/")], [entry("cccc-3", name="")])

    assert observed.keys() == {BILLING, "KN_SUB_CCCC3"}


@pytest.mark.parametrize(
    ("known", "comes", "stays"),
    [(5, 4, 5), (5, 5, 5), (5, 6, 6), (5, 0, 5)],
)
def test_a_generation_never_goes_back(known: int, comes: int, stays: int) -> None:
    old = entry(generation=known, subscriberUri="http://known/")
    new = entry(generation=comes, subscriberUri="http://comes/")

    observed = after([old], [new])

    subscriber = serves(observed[BILLING])
    assert subscriber.generation == stays
    assert subscriber.subscriber is not None
    assert subscriber.subscriber.uri == ("http://known/" if comes < known else "http://comes/")


def test_a_refused_entry_that_comes_back_stale_is_still_refused() -> None:
    observed = after([entry(generation=5, subscriberUri="ftp://x/")], [], [entry(generation=4)])

    subscriber = serves(observed[BILLING])
    assert (subscriber.state, subscriber.generation) == (SubscriberState.REFUSED, 5)
    assert "ftp://x" in subscriber.reason


def test_what_can_not_be_changed_is_told_and_the_rest_is_done() -> None:
    template = manifest.parse(
        channel(consumerConfigTemplate={"deliverPolicy": "New", "maxAckPending": 5})
    ).spec.consumer_config_template

    ((billing,), _) = bind([entry()], after([entry()]), replace(TERMS, template=template))

    (update,) = billing.actions
    assert isinstance(update, UpdateConsumer)
    assert (update.config["deliver_policy"], update.config["max_ack_pending"]) == ("all", 5)
    assert billing.drift == "deliver_policy stays 'all', since NATS can't make it 'new' on a consumer that exists"


def test_a_consumer_of_the_durables_name_without_our_mark_is_in_the_way() -> None:
    theirs = {"name": BILLING, "durable_name": BILLING, "deliver_subject": "x"}

    (billing, mail), leavers = bind([entry("aaaa-1"), entry("bbbb-2", "mail")], {BILLING: theirs})

    assert billing.problem.startswith(f"consumer {BILLING} is a push consumer, which delivers to the subject 'x'")
    assert billing.actions == ()
    assert mail.problem == ""
    assert leavers == ()


def test_two_damaged_consumers_are_each_found_by_their_name() -> None:
    entries = [entry("aaaa-1"), entry("bbbb-2", "mail")]
    healthy = after(entries)
    damaged = {
        name: {**config, "metadata": {**config["metadata"], METADATA_KEY: "{"}} for name, config in healthy.items()
    }

    assert carried_out(*bind(entries, damaged), damaged) == healthy


def test_a_damaged_consumer_that_is_found_by_its_name_is_not_taken_over_as_well() -> None:
    (healthy,) = after([entry("aaaa-1")]).values()
    damaged = {BILLING: {**healthy, "metadata": {**healthy["metadata"], METADATA_KEY: "{"}}}

    (known, newcomer), _ = bind([entry("aaaa-1"), entry("cccc-3")], damaged)

    assert (known.durable, newcomer.durable) == (BILLING, "KN_SUB_CCCC3")


def test_all_of_the_channels_consumers_go_with_it_and_no_others() -> None:
    observed = {**after([entry("aaaa-1")], [entry("bbbb-2", "mail")]), "theirs": {"name": "theirs"}}

    assert binding.removal(observed.values(), PLACE) == (
        DeleteConsumer(STREAM, BILLING),
        DeleteConsumer(STREAM, MAIL),
    )


entries = st.builds(
    lambda uid, name, generation: entry(f"uid-{uid}", f"s{name}", generation),
    st.integers(0, 3),
    st.integers(0, 2),
    st.integers(1, 3),
)


@given(st.lists(st.lists(entries, max_size=4), max_size=6), st.floats(0, 100))
def test_whatever_the_list_does_each_live_uid_has_at_most_one_consumer_that_is_delivered_to(
    steps: list[list[dict[str, Any]]], seconds: float
) -> None:
    observed = after(*steps, seconds=seconds)

    ready = [serves(config).uid for config in observed.values() if serves(config).state is SubscriberState.READY]
    assert len(ready) == len(set(ready))
    if steps:
        assert set(ready) <= {one["uid"] for one in steps[-1]}


@given(st.lists(entries, max_size=4), st.lists(entries, max_size=4))
def test_a_second_run_has_nothing_to_do(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> None:
    observed = after(first, second)

    assert actions_of(*bind(second, observed)) == []


def test_the_work_grows_with_the_number_of_subscribers_not_with_its_square() -> None:
    # All names are new: each entry looks for a consumer, and each consumer, its grace over, for a successor.
    def seconds(many: int) -> float:
        known = carried_out(*bind([entry(f"a{each:04d}", f"old{each}") for each in range(many)], {}), {})
        gone = carried_out(*bind([], known), known)
        news = [entry(f"b{each:04d}", f"new{each}") for each in range(many)]
        there = {f"b{each:04d}": Subscription(f"b{each:04d}", "shop", f"new{each}") for each in range(many)}
        later = replace(TERMS, now=NOON + timedelta(hours=1), truth=Truth(there, complete=True))
        began = time.thread_time()
        bindings, leavers = bind(news, gone, later)
        took = time.thread_time() - began
        assert (len(bindings), len(leavers)) == (many, many)
        return took

    # Eight times the subscribers; in a square the searches alone would take sixty-four times as long. A machine that
    # others load takes longer now and then: the least of each size counts, of tries that take turns.
    few, many = inf, inf
    for _ in range(8):
        few, many = min(few, seconds(250)), min(many, seconds(2_000))
        if many < 16 * few:
            return
    raise AssertionError(f"{many / few:.1f} times as long with eight times the subscribers")

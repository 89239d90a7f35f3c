"""Metrics as values: their sums over processes, and a text that Prometheus' own client reads back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from headrace.core import metric_families, metrics
from headrace.core.delivery.lease import Outcome, Tally
from headrace.core.delivery.stage_record import Stage
from headrace.core.delivery.subscriber import Subscriber
from headrace.core.http import HttpAnswer
from headrace.core.metrics import Distribution, Family, FamilyKind, Fold, Timings
from headrace.core.nats.jetstream import PubAck
from headrace.host.forward_counts import ForwardCounts
from headrace.host.receive_counts import MOST_CHANNELS, OTHERS, ReceiveCounts
from headrace.io.process import usage

COUNT = Family("a_total", FamilyKind.COUNTER, "what \\ it counts", ("who",))
LEVEL = Family("b", FamilyKind.GAUGE, "a level")
FIRST = Family("c", FamilyKind.GAUGE, "the first", fold=Fold.LEAST)
TOOK = Family("d_seconds", FamilyKind.HISTOGRAM, "how long", ("who",), bounds=(0.1, 1.0))
FAMILIES = {family.name: family for family in (COUNT, LEVEL, FIRST, TOOK)}

numbers = st.integers(0, 2**53)
series = st.dictionaries(st.tuples(st.text(max_size=5)), numbers, max_size=4)
distributions = st.builds(
    lambda counts, total: Distribution(tuple(counts), float(total)), st.lists(numbers, min_size=3, max_size=3), numbers
)
snapshots = st.fixed_dictionaries(
    {},
    optional={
        "a_total": series,
        "b": st.fixed_dictionaries({(): numbers}),
        "c": st.fixed_dictionaries({(): numbers}),
        "d_seconds": st.dictionaries(st.tuples(st.text(max_size=5)), distributions, max_size=2),
    },
)


def test_an_observation_on_a_bound_is_below_it() -> None:
    timings = Timings((0.1, 1.0))
    for seconds in (0.05, 0.1, 0.10001, 1.0, 7.0):
        timings.took(seconds)
    assert Distribution.of(timings).counts == (2, 2, 1)
    assert timings.total == pytest.approx(8.25001)


@given(st.lists(snapshots, max_size=3))
def test_prometheus_reads_what_several_processes_add_up_to(several: list[metrics.Snapshot]) -> None:
    text = metrics.text(metrics.added(several, FAMILIES), FAMILIES.values()).decode()
    found = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    for who in {who for one in several for who in one.get("a_total", {})}:
        values = [one["a_total"][who] for one in several if who in one.get("a_total", {})]
        assert found["a_total", ("who", who[0])] == sum(values)  # type: ignore[arg-type]  # numbers, of this kind
    for name, fold in (("b", sum), ("c", min)):
        if values := [one[name][()] for one in several if name in one]:
            assert found[name,] == fold(values)  # type: ignore[operator]  # of this kind
    for who in {who for one in several for who in one.get("d_seconds", {})}:
        each = [one["d_seconds"][who] for one in several if who in one.get("d_seconds", {})]
        counts = [sum(column) for column in zip(*(one.counts for one in each), strict=True)]  # type: ignore[union-attr]  # of this kind
        labels = ("who", who[0])
        assert found["d_seconds_count", labels] == found["d_seconds_bucket", ("le", "+Inf"), labels] == sum(counts)
        assert found["d_seconds_bucket", ("le", "1.0"), labels] == sum(counts[:2])
        assert found["d_seconds_sum", labels] == sum(one.total for one in each)  # type: ignore[union-attr]  # of this kind


def test_what_is_no_family_is_left_out() -> None:
    assert metrics.added([{"x": {(): 1}, "b": {(): 2}}], FAMILIES) == {"b": {(): 2}}


def test_families_are_what_prometheus_demands_of_names() -> None:
    for family in metric_families.FUNCTIONS:
        assert (family.kind is FamilyKind.COUNTER) == family.name.endswith("_total"), family
        assert (family.kind is FamilyKind.HISTOGRAM) == bool(family.bounds), family
        assert family.fold is Fold.SUM or family.kind is FamilyKind.GAUGE, family


def test_of_ever_new_channels_some_are_named_and_the_others_added_up() -> None:
    counts = ReceiveCounts()
    for number in range(MOST_CHANNELS + 50):
        for _ in range(2):
            counts.stored(f"{'n' * 63}.{number:048d}._knative", PubAck("S", 1, duplicate=True), 0.001)
    snapshot = counts.snapshot(0)
    stored = snapshot[metric_families.STORED.name]
    assert len(stored) == MOST_CHANNELS + 1
    assert stored[OTHERS] == snapshot[metric_families.DUPLICATES.name][OTHERS] == 100


# ── what the functions count ────────────────────────────────────────────────────────────────────────────────────────


def test_a_channel_is_named_by_its_subject() -> None:
    counts = ReceiveCounts()
    for subject in ("shop.orders._knative", "shop.a--b-kn-jsm-channel._knative"):
        counts.stored(subject, PubAck("S", 1), 0.1)
    assert set(counts.snapshot(0)[metric_families.STORED.name]) == {("shop", "orders"), ("shop", "a--b")}


def test_what_came_by_asgi_is_answered_there() -> None:
    counts = ReceiveCounts()
    counts.stored("shop.orders._knative", PubAck("S", 1), 0.1)
    counts.stored("shop.orders._knative", PubAck("S", 2), 0.1)
    counts.long_way = 1
    counts.refused(507)
    assert counts.snapshot(0)[metric_families.REQUESTS.name] == {("receive", "202"): 1, ("receive", "507"): 1}


def test_no_answer_is_counted_beside_the_500_that_knative_calls_it() -> None:
    billing = Subscriber("shop", "orders", "billing", "u", 1, "KN_aside")
    counts = ForwardCounts()
    posts = counts.posts(billing, Stage.SUBSCRIBER)
    for answer in (HttpAnswer(500), HttpAnswer(None), HttpAnswer(None, stale=True), HttpAnswer(202)):
        posts.took(answer, 0.001)
    counts.posts(replace(billing, name="audit"), Stage.REPLY).took(HttpAnswer(None), 1.0)
    snapshot = counts.snapshot(in_flight=0, in_flight_bytes=0)
    told = snapshot[metric_families.DISPATCH_SECONDS.name]
    by_code = {labels[-1]: sum(value.counts) for labels, value in told.items()}  # type: ignore[union-attr]  # of this kind
    assert by_code == {"500": 3, "202": 1}
    silent = snapshot[metric_families.NO_ANSWERS.name]
    assert silent == {("shop", "orders", "billing"): 2, ("shop", "orders", "audit"): 1}
    stale = snapshot[metric_families.STALE_CONNECTIONS.name]
    assert stale == {("shop", "orders", "billing"): 1, ("shop", "orders", "audit"): 0}


def test_leases_that_are_alike_end_each_for_itself() -> None:
    billing = Subscriber("shop", "orders", "billing", "u", 1, "KN_aside")
    counts, first, second = ForwardCounts(), Tally(), Tally()
    with counts.lease(billing, first):
        with counts.lease(billing, second):
            first.count(Outcome.DELIVERED)
            second.count(Outcome.DELIVERED)
            assert _delivered(counts) == (2, 2)
        first.count(Outcome.DELIVERED)
        assert _delivered(counts) == (1, 3)
    assert _delivered(counts) == (0, 3)


def _delivered(counts: ForwardCounts) -> tuple[object, object]:
    snapshot = counts.snapshot(in_flight=0, in_flight_bytes=0)
    outcomes = snapshot[metric_families.FORWARDED.name]
    return snapshot[metric_families.LEASES_OPEN.name][()], outcomes["shop", "orders", "billing", "delivered"]


def test_a_process_knows_what_it_costs() -> None:
    assert usage.cpu_seconds() > 0
    assert usage.age() > 0
    assert (usage.resident_bytes() or 1) > 0

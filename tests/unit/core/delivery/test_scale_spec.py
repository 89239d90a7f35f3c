"""How many leases a subscriber deserves: the channel's word, unless its Subscription has one of its own."""

from __future__ import annotations

import pytest

from headrace.core.channel import consumer
from headrace.core.delivery import scale_spec
from headrace.core.delivery.scale_spec import ScaleSpec, Wake
from headrace.core.delivery.subscriber import SubscriberState
from headrace.core.errors import InvalidSpec
from headrace.core.manifest import manifest
from tests.support.functions.channels import channel, entry

THRESHOLD, SCALE, WAKE = "headrace.dev/lag-threshold", "headrace.dev/max-scale", "headrace.dev/wake"


@pytest.mark.parametrize(
    ("annotations", "default", "spec"),
    [
        pytest.param({}, None, ScaleSpec(1000, 4), id="nothing is said"),
        pytest.param({THRESHOLD: "10"}, None, ScaleSpec(10, 4), id="one thing is said"),
        pytest.param({SCALE: "9"}, ScaleSpec(7, 2), ScaleSpec(7, 9), id="the rest is the channel's"),
        pytest.param({WAKE: "early"}, None, ScaleSpec(wake=Wake.EARLY), id="when to wake"),
        pytest.param({}, ScaleSpec(wake=Wake.EARLY), ScaleSpec(wake=Wake.EARLY), id="as the channel"),
        pytest.param(
            {WAKE: "stored"}, ScaleSpec(wake=Wake.EARLY), ScaleSpec(wake=Wake.STORED), id="not as the channel"
        ),
    ],
)
def test_what_annotations_ask_for(annotations: dict[str, str], default: ScaleSpec | None, spec: ScaleSpec) -> None:
    assert scale_spec.from_annotations(annotations, default) == spec


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "four", "", "1" * 10, "\u0663"])
def test_anything_but_a_whole_number_from_1_is_refused(text: str) -> None:
    with pytest.raises(InvalidSpec, match="it should be a whole number from 1") as refused:
        scale_spec.from_annotations({SCALE: text})
    assert refused.value.field == f"metadata.annotations[{SCALE}]"


@pytest.mark.parametrize("text", ["Early", "true", ""])
def test_a_moment_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidSpec, match="it should be early or stored") as refused:
        scale_spec.from_annotations({WAKE: text})
    assert refused.value.field == f"metadata.annotations[{WAKE}]"


def test_a_subscription_may_say_it_for_itself() -> None:
    own = {SCALE: "2", WAKE: "stored"}
    entries = entry(), entry("bbbb-1", annotations=own), entry("cccc-1", annotations={SCALE: "no"})
    annotations = {SCALE: "8", THRESHOLD: "5", WAKE: "early"}
    made = consumer.rows(manifest.parse(channel(*entries, annotations=annotations)), "KN_SHOP__ORDERS")
    first, second, third = (row.subscriber for row in made)
    assert first is not None
    assert second is not None
    assert third is not None
    assert (first.max_scale, first.lag_threshold, first.wake) == (8, 5, Wake.EARLY)
    assert (second.max_scale, second.lag_threshold, second.wake) == (2, 5, Wake.STORED)
    assert third.state is SubscriberState.REFUSED

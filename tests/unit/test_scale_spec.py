"""How many leases a subscriber deserves: the channel's word, unless its Subscription has one of its own."""

from __future__ import annotations

import pytest

from headrace.core import consumer, manifest, scale_spec
from headrace.core.errors import InvalidSpec
from headrace.core.scale_spec import ScaleSpec
from headrace.core.subscriber import SubscriberState
from tests.support.channels import channel, entry

THRESHOLD, SCALE = "headrace.dev/lag-threshold", "headrace.dev/max-scale"


@pytest.mark.parametrize(
    ("annotations", "default", "spec"),
    [
        pytest.param({}, None, ScaleSpec(1000, 4), id="nothing is said"),
        pytest.param({THRESHOLD: "10"}, None, ScaleSpec(10, 4), id="one thing is said"),
        pytest.param({SCALE: "9"}, ScaleSpec(7, 2), ScaleSpec(7, 9), id="the rest is the channel's"),
    ],
)
def test_what_annotations_ask_for(annotations: dict[str, str], default: ScaleSpec | None, spec: ScaleSpec) -> None:
    assert scale_spec.read(annotations, default) == spec


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "four", "", "1" * 10, "\u0663"])
def test_anything_but_a_whole_number_from_1_is_refused(text: str) -> None:
    with pytest.raises(InvalidSpec, match="it should be a whole number from 1") as refused:
        scale_spec.read({SCALE: text})
    assert refused.value.field == f"metadata.annotations[{SCALE}]"


def test_a_subscription_may_say_it_for_itself() -> None:
    entries = entry(), entry("bbbb-1", annotations={SCALE: "2"}), entry("cccc-1", annotations={SCALE: "no"})
    made = consumer.rows(manifest.parse(channel(*entries, annotations={SCALE: "8", THRESHOLD: "5"})), "KN_SHOP__ORDERS")
    first, second, third = (row.subscriber for row in made)
    assert first is not None
    assert second is not None
    assert third is not None
    assert (first.max_scale, first.lag_threshold) == (8, 5)
    assert (second.max_scale, second.lag_threshold) == (2, 5)
    assert third.state is SubscriberState.REFUSED

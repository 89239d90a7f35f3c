"""Rings of streams that republish to one another are found from their configurations; what is no ring is left alone."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.channel import stream_config
from headrace.core.channel.republish_ring import REASON, opened
from headrace.core.channel.stream_config import WantedStreams
from headrace.core.manifest import manifest
from tests.support.functions.channels import channel, stream


def wanted(to: str, source: str = ">", **config: Any) -> WantedStreams:
    config = {"republish": {"source": source, "destination": to}, **config}
    return stream_config.wanted(manifest.parse(channel(name="a", stream=stream(**config))), "kubernetes")


def other(name: str, *subjects: str, to: str = "", source: str = ">", **config: Any) -> dict[str, Any]:
    republish = {"republish": {"src": source, "dest": to}} if to else {}
    return {"name": name, "subjects": list(subjects), **republish, **config}


IN = {"additionalSubjects": ["shop.in.a"]}


@pytest.mark.parametrize(
    ("ours", "others", "ring"),
    [
        pytest.param(wanted("live.>"), [], False, id="nobody stores it"),
        pytest.param(wanted("shop.in.b", **IN), [other("B", "shop.in.b")], False, id="stored, and there it ends"),
        pytest.param(wanted("shop.in.b", **IN), [other("B", "shop.in.b", to="shop.in.a")], True, id="of two"),
        pytest.param(
            wanted("shop.in.b"), [other("B", "shop.in.b", to="shop.a._knative")], True, id="by its own subject"
        ),
        pytest.param(
            wanted("shop.in.b", **IN),
            [other("B", "shop.in.b", to="shop.in.c"), other("C", "shop.in.*", to="shop.in.{{wildcard(1)}}")],
            True,
            id="of three, by wildcards",
        ),
        pytest.param(
            wanted("shop.in.b", source="shop.a._knative", **IN),
            [other("B", "shop.b._knative", "shop.in.b", source="shop.b._knative", to="shop.in.a")],
            False,
            id="each hands on what was sent to itself only",
        ),
        pytest.param(
            wanted("shop.in.b", source="shop.a._knative", **IN),
            [other("B", "shop.in.b", to="shop.in.a")],
            False,
            id="it comes back once and ends",
        ),
        pytest.param(
            wanted("shop.in.b", sources=[{"name": "B"}]), [other("B", "shop.in.b")], True, id="back as a copy"
        ),
        pytest.param(
            wanted("shop.in.b", sources=[{"name": "B", "filterSubject": "shop.else"}]),
            [other("B", "shop.in.b", "shop.else")],
            False,
            id="the copy leaves it out",
        ),
        pytest.param(
            wanted("shop.in.b", **IN),
            [other("B", "shop.in.b"), other("C", mirror={"name": "B"}, to="shop.in.a")],
            True,
            id="by a mirror",
        ),
        pytest.param(
            wanted("shop.in.b", sources=[{"name": "B", "external": {"apiPrefix": "$JS.hub.API"}}]),
            [other("B", "shop.in.b")],
            False,
            id="a copy of another account's",
        ),
        pytest.param(
            wanted("shop.in.b"),
            [other("B", "shop.in.b", subject_transform={"src": ">", "dest": "x.>"}, sources=[{"name": "B"}])],
            False,
            id="a transform that gives ever longer subjects",
        ),
        pytest.param(
            wanted("x.y"),
            [other("B", "shop.in.b", to="shop.in.c"), other("C", "shop.in.c", to="shop.in.b")],
            False,
            id="a ring of others",
        ),
    ],
)
def test_a_channel_in_a_ring_republishes_nothing(ours: WantedStreams, others: list[dict[str, Any]], ring: bool) -> None:
    found, problems = opened(ours, others)

    assert [one.reason for one in problems] == ([REASON] if ring else [])
    assert found.config["republish"] == (None if ring else ours.config["republish"])


def test_the_message_names_field_value_and_streams() -> None:
    (problem,) = opened(wanted("shop.in.b", **IN), [other("B", "shop.in.b", to="shop.in.a")])[1]

    assert problem.message == (
        "spec.stream.config.republish.destination is 'shop.in.b': other streams lead from there back to KN_SHOP__A "
        "(B), so an event would go round; nothing is republished until one of them leads elsewhere"
    )

"""What a namespace's channels reserve together, beside what an administrator lets them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headrace.core.channel import stream_config
from headrace.core.channel.plan import Observed
from headrace.core.channel.storage_share import judged
from headrace.core.channel.stream_config import WantedStreams
from headrace.core.manifest import manifest
from headrace.core.nats.stream import Owner, Role
from tests.support.functions.channels import channel, stream

MOST = {"file": "10Ki"}


def wanted(**config: Any) -> WantedStreams:
    return stream_config.wanted(manifest.parse(channel(stream=stream(**config))), "kubernetes")


def with_config(**config: Any) -> Observed:
    """The channel's own stream, as the server has it."""
    return Observed({**wanted().config, **config}, None)


def other(size: int, *, namespace: str = "shop", cluster: str = "kubernetes", **members: str) -> dict[str, Any]:
    """Another stream of the account."""
    mark = Owner(cluster, namespace, "other", "uid").mark(Role.CHANNEL)
    config = {"name": "KN_SHOP__OTHER", "storage": "file", "max_bytes": size, "num_replicas": 1, "metadata": mark}
    return {**config, **members}


@pytest.mark.parametrize(
    ("config", "others", "refused"),
    [
        pytest.param({"maxBytes": 10_240}, [], False, id="all of it"),
        pytest.param({"maxBytes": 10_241}, [], True, id="one byte more"),
        pytest.param({"maxBytes": 4_000, "replicas": 3}, [], True, id="each replica counts"),
        pytest.param({"maxBytes": 4_000}, [other(6_000)], False, id="together within"),
        pytest.param({"maxBytes": 4_241}, [other(6_000)], True, id="together beyond"),
        pytest.param({"maxBytes": 9_000}, [other(6_000, namespace="bank")], False, id="another namespace's"),
        pytest.param({"maxBytes": 9_000}, [other(6_000, cluster="b")], False, id="another cluster's"),
        pytest.param({"maxBytes": 9_000}, [other(6_000, storage="memory")], False, id="another storage's"),
        pytest.param({"maxBytes": 9_000}, [other(9_000, name="KN_SHOP__ORDERS")], False, id="its own, from before"),
        pytest.param({"maxBytes": 90_000, "storage": "Memory"}, [], False, id="no bound of this storage"),
        pytest.param({}, [other(60_000)], False, id="nothing is reserved"),
    ],
)
def test_a_new_channel_is_made_if_the_sum_is_within_the_bound(
    config: dict[str, Any], others: list[dict[str, Any]], refused: bool
) -> None:
    share = judged(wanted(**config), Observed(None, None), others, MOST)

    assert share.stopped is refused
    assert (share.problem is not None) is refused


def test_the_refusal_names_field_value_sum_bound_and_who_opens_it() -> None:
    problem = judged(wanted(maxBytes=4_000, replicas=3), Observed(None, None), [other(6_000)], MOST).problem

    assert problem is not None
    assert problem.message == (
        "spec.stream.config.maxBytes is 4000 for each of 3 replicas, with which the channels of namespace shop reserve "
        "18000 bytes of file storage, 6000 of them others', and may reserve 10Ki: lower it, or an administrator opens "
        "it: maxBytes: {file: 18000} in key tenants of ConfigMap config-ch-jetstream-defaults"
    )


def test_an_edit_that_asks_for_more_leaves_the_room_as_it_is_and_all_else_is_done() -> None:
    observed = with_config(max_bytes=8_000)

    share = judged(wanted(maxBytes=12_000, maxMsgs=7), observed, [], MOST)

    assert not share.stopped
    assert share.problem is not None
    assert (share.wanted.config["max_bytes"], share.wanted.config["max_msgs"]) == (8_000, 7)


@pytest.mark.parametrize("asked", [20_000, 15_000])
def test_what_a_stream_has_already_it_keeps_and_is_told(asked: int) -> None:
    share = judged(wanted(maxBytes=asked), with_config(max_bytes=20_000), [], MOST)

    assert share == replace(share, wanted=wanted(maxBytes=asked), problem=None, stopped=False)
    assert len(share.beyond) == 1
    assert "it is kept" in share.beyond[0]


def test_streams_of_nobody_do_not_count() -> None:
    unmarked = {**other(9_000), "metadata": {}}
    assert judged(wanted(maxBytes=9_000), Observed(None, None), [unmarked], MOST).problem is None


def test_what_lies_aside_of_others_counts_and_ones_own_does_not() -> None:
    aside = {**other(9_000), "metadata": Owner("kubernetes", "shop", "other", "uid").mark(Role.ASIDE)}
    assert judged(wanted(maxBytes=9_000), Observed(None, None), [aside], MOST).stopped
    own = {**aside, "name": wanted().place.aside}
    assert judged(wanted(maxBytes=9_000), Observed(None, None), [own], MOST).problem is None

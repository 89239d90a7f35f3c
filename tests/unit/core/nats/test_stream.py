"""The streams that a channel wants, and whose a stream is."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.channel import stream_config
from headrace.core.channel.stream_config import WantedStreams
from headrace.core.errors import InvalidSpec
from headrace.core.manifest import manifest
from headrace.core.manifest.manifest import Metadata
from headrace.core.nats.stream import Owner, Ownership, Role, captures, foreign_owner, standing
from headrace.core.raw_config import Config, differs, merged
from tests.support.functions.channels import UID, channel, stream

MARK = {
    "headrace.dev/cluster": "east",
    "headrace.dev/namespace": "shop",
    "headrace.dev/channel": "orders",
    "headrace.dev/uid": UID,
}


def wanted(**spec: Any) -> WantedStreams:
    return stream_config.wanted(manifest.parse(channel(**spec)), "east")


def test_a_channel_that_says_nothing_gets_a_stream_without_limits() -> None:
    assert wanted().config == {
        "name": "KN_SHOP__ORDERS",
        "subjects": ["shop.orders._knative"],
        "retention": "limits",
        "max_consumers": -1,
        "max_msgs": -1,
        "max_bytes": -1,
        "max_msg_size": -1,
        "max_age": 0,
        "discard": "old",
        "no_ack": False,
        "storage": "file",
        "num_replicas": 1,
        "mirror": None,
        "sources": [],
        "duplicate_window": 120_000_000_000,
        "max_msgs_per_subject": -1,
        "discard_new_per_subject": False,
        "compression": "none",
        "allow_rollup_hdrs": False,
        "allow_direct": False,
        "mirror_direct": False,
        "subject_transform": None,
        "republish": None,
        "consumer_limits": None,
        "metadata": {**MARK, "headrace.dev/role": "channel"},
    }


@pytest.mark.parametrize(
    ("config", "key", "value"),
    [
        ({"retention": "Interest"}, "retention", "interest"),
        ({"retention": "Work"}, "retention", "workqueue"),
        ({"maxBytes": 5}, "max_bytes", 5),
        ({"maxBytes": 0}, "max_bytes", -1),
        ({"maxMsgs": -1}, "max_msgs", -1),
        ({"maxConsumers": 3}, "max_consumers", 3),
        ({"maxMsgSize": 1024}, "max_msg_size", 1024),
        ({"maxAge": "1h"}, "max_age", 3_600_000_000_000),
        ({"discard": "New"}, "discard", "new"),
        ({"storage": "Memory"}, "storage", "memory"),
        ({"replicas": 3}, "num_replicas", 3),
        ({"duplicateWindow": "30s"}, "duplicate_window", 30_000_000_000),
        pytest.param({"maxAge": "1m"}, "duplicate_window", 60_000_000_000, id="the window is no longer than the age"),
        ({"placement": {"cluster": "c", "tags": ["t"]}}, "placement", {"cluster": "c", "tags": ["t"]}),
        ({"additionalSubjects": ["b", "a"]}, "subjects", ["shop.orders._knative", "b", "a"]),
        pytest.param(
            {"additionalSubjects": ["a", "shop.orders._knative", "a"]},
            "subjects",
            ["shop.orders._knative", "a"],
            id="a subject that is given twice counts once",
        ),
        (
            {"mirror": {"name": "A", "optStartSeq": 5, "filterSubject": "a.b"}},
            "mirror",
            {"name": "A", "opt_start_seq": 5, "filter_subject": "a.b"},
        ),
        pytest.param({"mirror": {"name": "A"}}, "subjects", [], id="a mirror listens on no subjects"),
        (
            {"sources": [{"name": "A", "optStartTime": "2026-01-01T00:00:00Z"}]},
            "sources",
            [{"name": "A", "filter_subject": "", "opt_start_time": "2026-01-01T00:00:00Z"}],
        ),
    ],
)
def test_the_template_is_the_streams(config: dict[str, Any], key: str, value: object) -> None:
    assert wanted(stream=stream(**config)).config[key] == value


def test_a_mirror_has_no_window_unless_the_author_says_so() -> None:
    assert "duplicate_window" not in wanted(stream=stream(mirror={"name": "A"})).config


def test_a_stream_is_not_moved_unless_the_author_says_where_to() -> None:
    assert "placement" not in wanted().config


def test_the_aside_stream_keeps_the_newest_of_each_subject_beside_the_channels_stream() -> None:
    aside = wanted(stream=stream(replicas=3, storage="Memory", maxBytes=5, placement={"cluster": "c"})).aside

    assert aside == {
        "name": "KN_SHOP__ORDERS_aside",
        "subjects": ["shop.orders._knative_aside.>"],
        "retention": "limits",
        "storage": "file",
        "num_replicas": 3,
        "max_msgs_per_subject": 1,
        "discard": "new",
        "allow_direct": True,
        "placement": {"cluster": "c", "tags": []},
        "metadata": {**MARK, "headrace.dev/role": "aside"},
    }


def test_the_author_may_name_the_stream() -> None:
    asked = wanted(stream={"overrideName": "ORDERS"})

    assert (asked.config["name"], asked.aside["name"]) == ("ORDERS", "ORDERS_aside")
    assert asked.config["subjects"] == ["shop.orders._knative"]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"stream": stream(noAck=True)}, "spec.stream.config.noAck"),
        (
            {"stream": stream(mirror={"name": "A"}, additionalSubjects=["a"])},
            "spec.stream.config.additionalSubjects",
        ),
        ({"stream": {"overrideName": "a.b"}}, "spec.stream.overrideName"),
        ({"stream": {"overrideName": "a b"}}, "spec.stream.overrideName"),
        ({"stream": {"overrideName": "a>"}}, "spec.stream.overrideName"),
        ({"stream": {"overrideName": "a/b"}}, "spec.stream.overrideName"),
        ({"stream": {"overrideName": "a\u0000"}}, "spec.stream.overrideName"),
        ({"stream": {"overrideName": "a" * 201}}, "spec.stream.overrideName"),
        ({"name": "Orders"}, "metadata.name"),
        ({"namespace": "a.b"}, "metadata.namespace"),
    ],
)
def test_what_no_channel_can_have_is_refused_by_its_field(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        wanted(**spec)

    assert refused.value.field == field
    assert str(refused.value).startswith(field)


@pytest.mark.parametrize(
    ("annotations", "stays"),
    [
        ({}, False),
        ({"headrace.dev/retain": "false"}, False),
        ({"headrace.dev/retain": "False"}, False),
        ({"headrace.dev/retain": "true"}, True),
        pytest.param({"headrace.dev/retain": "ture"}, True, id="a typo deletes nothing"),
    ],
)
def test_streams_go_with_their_channel_unless_they_are_retained(annotations: dict[str, str], stays: bool) -> None:
    assert stream_config.retained(Metadata(name="a", namespace="b", annotations=annotations)) is stays


CHANNEL_MARK = {**MARK, "headrace.dev/role": "channel"}
ASIDE_MARK = {**MARK, "headrace.dev/role": "aside"}
OURS = {"subjects": ["shop.orders._knative"]}


@pytest.mark.parametrize(
    ("observed", "role", "override", "expected"),
    [
        pytest.param(None, Role.CHANNEL, "", Ownership.MISSING, id="nothing there"),
        pytest.param({"metadata": CHANNEL_MARK}, Role.CHANNEL, "", Ownership.OURS, id="our mark"),
        pytest.param(
            {"metadata": {**CHANNEL_MARK, "headrace.dev/uid": "old"}},
            Role.CHANNEL,
            "",
            Ownership.OURS,
            id="our mark, from before the channel was made again",
        ),
        pytest.param(
            {**OURS, "metadata": {**CHANNEL_MARK, "headrace.dev/cluster": "west"}},
            Role.CHANNEL,
            "",
            Ownership.FOREIGN,
            id="another cluster",
        ),
        pytest.param(
            {**OURS, "metadata": {**CHANNEL_MARK, "headrace.dev/channel": "other"}},
            Role.CHANNEL,
            "ORDERS",
            Ownership.FOREIGN,
            id="another channel made the stream that we were told to adopt",
        ),
        pytest.param(
            {**OURS, "metadata": {**CHANNEL_MARK, "headrace.dev/namespace": "other"}},
            Role.CHANNEL,
            "",
            Ownership.FOREIGN,
            id="another namespace",
        ),
        pytest.param({"metadata": ASIDE_MARK}, Role.CHANNEL, "X", Ownership.FOREIGN, id="an aside is no channel"),
        pytest.param({"metadata": CHANNEL_MARK}, Role.ASIDE, "", Ownership.FOREIGN, id="a channel is no aside"),
        pytest.param({"metadata": ASIDE_MARK}, Role.ASIDE, "", Ownership.OURS, id="our aside"),
        pytest.param(OURS, Role.ASIDE, "", Ownership.FOREIGN, id="an unmarked aside"),
        pytest.param(OURS, Role.CHANNEL, "", Ownership.PEERS, id="the Go channel's"),
        pytest.param({**OURS, "metadata": {"team": "a"}}, Role.CHANNEL, "", Ownership.PEERS, id="with a foreign label"),
        pytest.param(
            {**OURS, "subjects": ["shop.*._knative"]}, Role.CHANNEL, "", Ownership.ADOPTED, id="made for many channels"
        ),
        pytest.param({"subjects": ["x"]}, Role.CHANNEL, "", Ownership.FOREIGN, id="unmarked, with other subjects"),
        pytest.param({"mirror": {"name": "A"}}, Role.CHANNEL, "", Ownership.FOREIGN, id="unmarked, without subjects"),
        pytest.param(
            {"subjects": ["x"]}, Role.CHANNEL, "ORDERS", Ownership.ADOPTED, id="unmarked, named by the author"
        ),
    ],
)
def test_whose_a_stream_is(observed: Config | None, role: Role, override: str, expected: Ownership) -> None:
    place = wanted(stream={"overrideName": override}).place

    assert standing(place, role, observed) is expected


def test_a_foreign_owner_is_named() -> None:
    other = Owner("west", "bank", "orders", "u").mark(Role.CHANNEL)

    assert foreign_owner({"metadata": other}) == "belongs to channel bank/orders of cluster west"


@pytest.mark.parametrize(
    ("subjects", "subject", "captured"),
    [
        (["a.b"], "a.b", True),
        (["x", "a.b"], "a.b", True),
        (["a.*"], "a.b", True),
        (["*.b"], "a.b", True),
        (["a.>"], "a.b", True),
        ([">"], "a.b", True),
        (["a.b.>"], "a.b", False),
        (["a"], "a.b", False),
        (["a.b.c"], "a.b", False),
        (["a.c"], "a.b", False),
        (["*"], "a.b", False),
        ([], "a.b", False),
        (None, "a.b", False),
    ],
)
def test_what_a_stream_captures(subjects: list[str] | None, subject: str, captured: bool) -> None:
    assert captures({"subjects": subjects}, subject) is captured


@pytest.mark.parametrize(
    ("observed", "asked", "different"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ({"a": 1}, {"a": 2}, True),
        ({}, {"a": 1}, True),
        pytest.param({}, {"a": 0, "b": "", "c": [], "d": None, "e": {}}, False, id="the server leaves out the empty"),
        pytest.param({"a": 5}, {"a": 0}, True, id="what is there is not empty"),
        pytest.param({"m": {"x": "1", "theirs": "2"}}, {"m": {"x": "1"}}, False, id="only our keys count, inside too"),
        pytest.param({"m": {"theirs": "2"}}, {"m": {}}, False, id="an object without keys asks for nothing"),
        ({"m": None}, {"m": {"x": "1"}}, True),
        ({"l": [1, 2]}, {"l": [2, 1]}, True),
        ({"l": [1]}, {"l": [1, 2]}, True),
        ({"l": [1, 2]}, {"l": [1]}, True),
        ({"l": [{"name": "a", "theirs": 1}]}, {"l": [{"name": "a"}]}, False),
        ({"l": None}, {"l": ["a"]}, True),
    ],
)
def test_only_what_we_ask_for_is_compared(observed: Config, asked: Config, different: bool) -> None:
    assert differs(observed, asked) is different


def test_what_we_do_not_know_survives_a_change() -> None:
    observed = {"a": 1, "theirs": 2, "m": {"x": "1", "theirs": "2"}, "l": [1]}

    changed = merged(observed, {"a": 3, "m": {"x": "4"}, "l": [5], "new": {"y": 6}})

    assert changed == {"a": 3, "theirs": 2, "m": {"x": "4", "theirs": "2"}, "l": [5], "new": {"y": 6}}
    assert observed == {"a": 1, "theirs": 2, "m": {"x": "1", "theirs": "2"}, "l": [1]}

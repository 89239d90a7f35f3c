"""Leftovers in another NATS account when the credentials of a channel change, and cases without any."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.channel import stream_config
from headrace.core.channel.own_account import leftovers
from headrace.core.channel.own_account.leftovers import condition
from headrace.core.manifest.manifest import Metadata
from headrace.core.nats.stream import UID_KEY, Role

PLACE = stream_config.place(Metadata(name="orders", namespace="shop", uid="one"), "", "default")
OLD, NEW = "2026-01-31T12:00:00Z", "2026-01-31T13:00:00Z"
SECRET = "Secret shop-nats"


def in_cluster(created: str = OLD, uid: str = "one") -> dict[str, Any]:
    """STREAM.INFO of a stream of the channel's name in the installation's account."""
    mark = {**PLACE.owner.mark(Role.CHANNEL), UID_KEY: uid}
    return {"created": created, "config": {"name": PLACE.stream, "metadata": mark}, "state": {"messages": 3}}


def test_a_channel_that_is_given_credentials_leaves_its_stream_in_the_cluster() -> None:
    left = condition({}, PLACE, SECRET, NEW, in_cluster())

    assert left is not None
    assert (left.type, left.reason, left.holds, left.informative) == (
        "NothingLeftBehind",
        "StreamLeftInCluster",
        False,
        True,
    )
    assert f"from before {SECRET}" in left.message
    assert "it holds 3 events" in left.message


@pytest.mark.parametrize(
    ("created", "found"),
    [
        pytest.param(NEW, None, id="there is none"),
        pytest.param(OLD, in_cluster(OLD), id="it is the same stream: both credentials lead to one account"),
        pytest.param("", in_cluster(), id="nobody knows yet whether it is the same"),
        pytest.param(NEW, in_cluster(uid="another"), id="it is of an earlier channel of this name"),
        pytest.param(NEW, {"created": OLD, "config": {"name": PLACE.stream}}, id="it is not ours"),
    ],
)
def test_what_is_in_the_cluster_and_not_left_behind(created: str, found: dict[str, Any] | None) -> None:
    assert condition({}, PLACE, SECRET, created, found) is None


def test_a_channel_whose_credentials_go_leaves_its_stream_with_whoever_has_them() -> None:
    before = {"connection": SECRET, "streamCreated": OLD, "consumers": [{"lag": 4}, {"lag": 0}, {}]}

    left = condition(before, PLACE, "", NEW, None)

    assert left is not None
    assert (left.reason, left.holds, left.informative) == ("StreamLeftBehind", False, True)
    assert f"in the NATS account of {SECRET}" in left.message
    assert "4 events have not been settled" in left.message


@pytest.mark.parametrize(
    ("before", "created"),
    [
        pytest.param({"connection": SECRET, "streamCreated": OLD}, OLD, id="it is the same stream"),
        pytest.param({"connection": SECRET, "streamCreated": OLD}, "", id="nobody knows yet whether it is the same"),
        pytest.param({"connection": SECRET}, NEW, id="nobody has ever seen a stream there"),
        pytest.param({}, NEW, id="it never had credentials of its own"),
    ],
)
def test_a_change_of_credentials_that_leaves_nothing_behind(before: dict[str, str], created: str) -> None:
    assert condition(before, PLACE, "", created, None) is None


def test_what_was_left_elsewhere_is_told_for_as_long_as_the_status_knows_of_it() -> None:
    left = condition({"connection": SECRET, "streamCreated": OLD}, PLACE, "", NEW, None)
    assert left is not None
    told = {"type": left.type, "status": "False", "reason": left.reason, "message": left.message}

    assert condition({"conditions": [told]}, PLACE, "", NEW, None) == left
    assert condition({"conditions": [{**told, "reason": "StreamLeftInCluster"}]}, PLACE, "", NEW, None) is None


@pytest.mark.parametrize(
    ("connection", "created", "written"),
    [
        pytest.param("", NEW, {}, id="of the installation's connection nothing"),
        pytest.param(SECRET, NEW, {"connection": SECRET, "streamCreated": NEW}, id="of one's own all"),
        pytest.param(
            "", "", {"connection": "x", "streamCreated": OLD}, id="what was said, while the stream is unknown"
        ),
    ],
)
def test_what_the_status_remembers_of_the_connection(connection: str, created: str, written: dict[str, str]) -> None:
    status = {"connection": "x", "streamCreated": OLD, "stream": "S"}
    assert leftovers.to_status(status, connection, created) == written

"""A channel is saved and brought back as it was: events, sequences, times, positions, parked events."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace_cli.storage import snapshot
from tests.cli.conftest import marked
from tests.support.functions.functions import Function
from tests.support.http.subscriber import Say, Subscriber
from tests.support.laptop.cli import Cli
from tests.support.nats.parking import park
from tests.support.nats.streams import Lane, Nats


async def used(nats: Nats, forward: Function, subscriber: Subscriber) -> Lane:
    """A channel with one parked, one delivered and one waiting event."""
    lane = await nats.serve(forward, await marked(nats), subscriber=subscriber.place(Say(400), Say()).uri)
    await park(lane, "a")
    await lane.store("b", data=b"x" * 500_000)
    await lane.lease()
    await lane.store("c")
    return lane


async def destroy(nats: Nats, lane: Lane) -> None:
    for stream in (lane.channel.stream, lane.channel.aside):
        await nats.call(f"STREAM.DELETE.{stream}")


async def test_all_comes_back_as_it_was(
    cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber, tmp_path: Path
) -> None:
    lane = await used(nats, forward, subscriber)
    before = (
        await nats.stored(lane.channel.stream),
        await lane.aside(),
        (await lane.info())["ack_floor"]["stream_seq"],
    )
    (await cli("backup", lane.channel.path[1:], str(tmp_path / "saved"))).ok()
    await destroy(nats, lane)

    ran = await cli("restore", str(tmp_path / "saved"), "--yes")

    assert ran.ok().out == f"{lane.channel.path[1:]} is back\n"
    after = (await nats.stored(lane.channel.stream), await lane.aside(), (await lane.info())["ack_floor"]["stream_seq"])
    assert after == before
    assert (await lane.lease())["delivered"] == 1
    listed = (await cli("deadletter", "list", lane.channel.path[1:], "-o", "json")).ok().json["items"]
    assert [item["id"] for item in listed] == ["a"]


async def test_nothing_is_replaced_and_a_damaged_file_is_told(
    cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber, tmp_path: Path
) -> None:
    lane = await used(nats, forward, subscriber)
    (await cli("backup", lane.channel.path[1:], str(tmp_path))).ok()

    there = await cli("restore", str(tmp_path), "--yes")
    whole = await cli("restore", str(tmp_path), "--verify")
    with (tmp_path / f"{lane.channel.stream}.snapshot").open("r+b") as file:
        file.seek(10)
        file.write(b"!")
    damaged = await cli("restore", str(tmp_path), "--verify")

    assert (there.status, "exist: delete the channel first" in there.err) == (1, True)
    assert "checksums are right" in whole.ok().err
    assert (damaged.status, "it is damaged" in damaged.err) == (2, True)


async def test_an_interrupted_backup_goes_on(
    cli: Cli,
    nats: Nats,
    forward: Function,
    subscriber: Subscriber,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lane = await used(nats, forward, subscriber)
    take = snapshot.take

    async def breaks(session, stream, *rest):  # type: ignore[no-untyped-def]  # as `take`, until the second stream
        if stream == lane.channel.aside:
            raise KeyboardInterrupt
        return await take(session, stream, *rest)

    monkeypatch.setattr(snapshot, "take", breaks)
    interrupted = await cli("backup", lane.channel.path[1:], str(tmp_path))
    half = await cli("restore", str(tmp_path), "--yes")
    monkeypatch.setattr(snapshot, "take", take)
    again = await cli("backup", lane.channel.path[1:], str(tmp_path))
    third = await cli("backup", lane.channel.path[1:], str(tmp_path))

    assert interrupted.status == 130
    assert (half.status, "was interrupted" in half.err) == (2, True)
    assert f"{lane.channel.stream} is saved already" in again.ok().err
    assert json.loads((tmp_path / "backup.json").read_text())["complete"] is True
    assert (third.status, "holds a whole backup" in third.err) == (2, True)


GOOD = {"config": {}, "state": {"messages": 1}, "bytes": 0, "sha256": ""}


@pytest.mark.parametrize(
    "streams",
    [{"S": 5}, {"S": {"x": 1}}, {"S": {**GOOD, "state": 2}}, None, {"../S": GOOD}, {"S.>": GOOD}, {"": GOOD}],
)
async def test_a_list_that_somebody_has_damaged_is_told(cli: Cli, tmp_path: Path, streams: object) -> None:
    known = {"v": 1, "channel": "shop/orders", "taken": "then", "streams": streams, "complete": True}
    (tmp_path / "backup.json").write_text(json.dumps(known))

    ran = await cli("restore", str(tmp_path), "--yes")

    assert ran.status == 2
    assert "holds no backup: backup.json can't be read" in ran.err
    assert "Traceback" not in ran.err

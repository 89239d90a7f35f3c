"""The verbs find the `headrace up` that runs, and see what it does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.support.http.subscriber import Say, Subscriber
from tests.support.laptop.cli import Ran, run
from tests.support.laptop.laptop import Laptop, channel, subscription
from tests.support.nats.nats_server import free_port
from tests.support.waiting import until

Kn = Callable[..., Awaitable[Ran]]

pytest_plugins = ["tests.support.functions.served"]


async def test_from_the_first_event_to_a_replayed_dead_letter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subscriber: Subscriber
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("NATS_URL", raising=False)
    place = subscriber.place(Say(400), Say())
    # Files of one owner may name what they like, without an administrator's list.
    named = "\nspec: {stream: {config: {additionalSubjects: [legacy.orders]}}}\n---"
    manifests = channel().replace("\n---", named), subscription("billing", place.uri)

    async def kn(*arguments: str) -> Ran:
        return await asyncio.to_thread(run, *arguments)

    async def parked() -> list[int]:
        found = (await kn("deadletter", "list", "orders", "-o", "json")).ok().json["items"]
        return [item["position"] for item in found]

    async def one_is_parked() -> bool:
        return len(await parked()) == 1

    port = free_port()
    options = ("--nats-port", str(port))
    with Laptop(tmp_path, *manifests, options=options, XDG_RUNTIME_DIR=str(tmp_path), LOG_FORMAT="plain") as laptop:
        await asyncio.to_thread(laptop.wait_until_ready)

        sent = await kn("send", "orders", "--type", "t", "--id", "first", "--data", "Hello")
        await until("the refused event is parked", one_is_parked, 30)
        seen = await kn("peek", "orders", "-o", "json")
        ill = await kn("doctor", "orders")
        (await kn("deadletter", "replay", "orders", "--all")).ok()
        await place.wait(2, 30)
        measured = await kn("bench", "orders", "--events", "20", "--yes", "-o", "json")
        well = await kn("doctor", "orders")
        elsewhere = await kn("send", "nowhere", "--type", "t")
        by_port = await kn("channel", "list", "-o", "name", "--nats", f"nats://127.0.0.1:{port}")
        ended = laptop.stop()

    assert sent.ok().out == "sent first to default/orders\n"
    assert seen.ok().lines[0]["event"]["id"] == "first"
    assert (ill.status, "[parked]" in ill.out) == (1, True)
    assert place.ids[:2] == ["first", "first"]
    assert measured.ok().json["published"]["events"] == 20
    assert measured.json["settled"][0]["settled"] == 20
    assert (well.status, well.out) == (0, "all is well: every Subscription gets its events\n")
    assert (elsewhere.status, elsewhere.out) == (1, "")
    assert "there is no channel default/nowhere: this NATS has default/orders" in elsewhere.err
    assert by_port.ok().out == "default/orders\n"
    assert "nats-server started" in laptop.log
    assert laptop.events == [], "LOG_FORMAT=plain has no lines of JSON"
    assert ended == 0
    assert list((tmp_path / "headrace").iterdir()) == []


async def test_what_nats_refuses_of_a_manifest_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("NATS_URL", raising=False)

    async def kn(*arguments: str) -> Ran:
        return await asyncio.to_thread(run, *arguments)

    async def conditions() -> dict[str, dict[str, str]]:
        described = (await kn("channel", "describe", "orders", "-o", "json")).ok().json
        return {each["type"]: each for each in described["conditions"]}

    async def refused() -> bool:
        return (await conditions())["StreamReady"]["status"] == "False"

    async def files_are_wrong() -> bool:
        return "[files-refused]" in (await kn("doctor")).out

    options = ("--idle-seconds", "120")
    with Laptop(tmp_path, channel(), options=options, XDG_RUNTIME_DIR=str(tmp_path)) as laptop:
        await asyncio.to_thread(laptop.wait_until_ready)
        well = await kn("channel", "list")

        three = channel().replace("\n---", "\nspec: {stream: {config: {replicas: 3}}}\n---")
        laptop.reload(three, three.replace("orders", "big"))
        await until("the edit is refused", refused, 30)
        # The one that can't be made comes last, and may be a moment later.
        await until("both are told of", lambda: both(kn), 30)
        listed = await kn("channel", "list")
        described = await kn("channel", "describe", "big")
        ill = await kn("doctor", "-o", "json")
        one = await kn("doctor", "big")
        laptop.reload(channel().replace("kind: Nats", "kind: Nat"))
        await until("the doctor sees that the files are wrong", files_are_wrong, 30)
        wrong = await kn("channel", "list")
        laptop.reload(channel())
        await until("all is well again", lambda: as_at_first(kn), 30)
        laptop.stop()

    server = "replicas > 1 not supported in non-clustered mode"
    assert well.ok().out.split("\n")[0].split()[-1] == "READY"
    assert "MESSAGE" not in well.out
    rows = {line.split()[0]: line for line in listed.ok().out.splitlines()}
    assert server in rows["orders"]
    assert server in rows["big"]
    assert "unmade" in rows["big"]
    assert server in described.ok().out
    assert {each["where"] for each in ill.json["items"] if server in each["what"]} == {"default/orders", "default/big"}
    assert (ill.status, one.status) == (1, 1)
    assert server in one.out
    assert "kind is 'NatJetStreamChannel': did you mean 'NatsJetStreamChannel'?" in wrong.err


async def both(kn: Kn) -> bool:
    listed = (await kn("channel", "list", "-o", "json")).ok().json["items"]
    return {each["name"]: each["ready"] for each in listed} == {"orders": "False", "big": "False"}


async def as_at_first(kn: Kn) -> bool:
    listed = (await kn("channel", "list", "-o", "json")).ok().json["items"]
    return {each["name"]: each["ready"] for each in listed} == {"orders": "True"}

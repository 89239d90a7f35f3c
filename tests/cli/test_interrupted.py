"""Ctrl-C in the middle: finished work is told, and whoever goes on does nothing twice."""

from __future__ import annotations

import asyncio
import re
import shlex
import signal
import sys
from asyncio.subprocess import PIPE

from tests.cli.conftest import marked
from tests.support.laptop.cli import Cli
from tests.support.nats.streams import Channel, Nats, binary_event
from tests.support.waiting import until

COUNT = 40


async def interrupted(cli: Cli, nats: Nats, copies: Channel, *command: str) -> tuple[int, str]:
    """Status and standard error of a command that is interrupted when it has stored some events."""

    async def some_are_stored() -> bool:
        return int((await nats.call(f"STREAM.INFO.{copies.stream}"))["state"]["messages"]) >= 3

    arguments = [sys.executable, "-m", "headrace_cli", *command, "--nats", cli.nats]
    process = await asyncio.create_subprocess_exec(*arguments, stdout=PIPE, stderr=PIPE)
    try:
        await until("some events are stored", some_are_stored, 30)
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(20):
            _, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return process.returncode, err.decode()


async def test_a_replay_goes_on_where_it_was_interrupted(cli: Cli, nats: Nats, orders: Channel) -> None:
    for number in range(COUNT):
        await nats.store(orders.subject, b"", binary_event(str(number)))
    copies = await marked(nats)
    target = ("--to-channel", copies.path[1:])

    status, err = await interrupted(
        cli, nats, copies, "replay", orders.path[1:], "--from-start", *target, "--rate", "20"
    )
    told = re.search(r"to go on, the same command with (.*)", err)
    assert (status, told is not None) == (130, True), err
    assert told is not None
    (await cli("replay", orders.path[1:], *target, *shlex.split(told[1]))).ok()

    stored = [each.headers["ce-id"] for each in await nats.stored(copies.stream)]
    assert stored == [str(number) for number in range(COUNT)]
    assert "Traceback" not in err


async def test_sending_says_how_many_are_sent(cli: Cli, nats: Nats, orders: Channel) -> None:
    command = ("send", orders.path[1:], "--type", "t", "--count", "1000", "--rate", "20")

    status, err = await interrupted(cli, nats, orders, *command)

    assert (status, "Traceback" in err) == (130, False)
    told = re.search(r"stopped: (\d+) events? sent", err)
    assert told is not None, err
    assert int(told[1]) <= len(await nats.stored(orders.stream)) <= int(told[1]) + 1

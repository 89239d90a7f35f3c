"""How `headrace up` begins and ends: options, signals, and nothing left behind."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.http.subscriber import Hold, Say, Subscriber
from tests.support.laptop.laptop import Laptop, Run, channel, emit, subscription

pytest_plugins = ["tests.support.laptop.laptops"]


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda laptop: laptop.interrupt(), id="ctrl-c, which a terminal sends to all"),
        pytest.param(lambda laptop: laptop.signal(signal.SIGTERM), id="sigterm"),
    ],
)
async def test_it_ends_in_order_and_waits_for_a_subscriber_that_works(
    run: Run, subscriber: Subscriber, end: Callable[[Laptop], None]
) -> None:
    billing = subscriber.place(Hold(Say(202)))
    laptop = run(channel(), subscription("billing", billing.uri), options=("--idle-seconds", "60"))
    laptop.wait_until_ready()
    await emit(laptop, "1")
    await billing.wait(1)

    end(laptop)
    await asyncio.sleep(1.5)
    assert len(laptop.family()) == 5
    billing.release()
    status = await asyncio.to_thread(laptop.wait)

    assert (status, laptop.survivors()) == (0, [])
    assert billing.received[0].gone_at is None
    assert [line["event"] for line in laptop.events if line["event"].endswith(" stopped")] == [
        "forward stopped",
        "receive stopped",
        "reconcile stopped",
        "nats-server stopped",
    ]


async def test_a_second_interrupt_ends_it_at_once(run: Run, subscriber: Subscriber) -> None:
    billing = subscriber.place(Hold(Say(202)))
    laptop = run(channel(), subscription("billing", billing.uri))
    laptop.wait_until_ready()
    await emit(laptop, "1")
    await billing.wait(1)

    laptop.interrupt()
    await asyncio.sleep(1.0)
    laptop.interrupt()

    assert (await asyncio.to_thread(laptop.wait, 10), laptop.survivors()) == (130, [])
    assert [line["event"] for line in laptop.events if "again" in line["event"]] == []
    assert "start failed" not in laptop.log


async def test_it_tells_what_it_waits_for(run: Run, subscriber: Subscriber) -> None:
    billing = subscriber.place(Hold(Say(202)))
    laptop = run(channel(), subscription("billing", billing.uri))
    laptop.wait_until_ready()
    await emit(laptop, "1")
    await billing.wait(1)

    laptop.interrupt()
    await asyncio.to_thread(
        laptop.until,
        lambda it: "waiting for forward, which finishes deliveries that subscribers have not answered yet" in it.log,
        "the wait is told of",
    )
    billing.release()

    assert await asyncio.to_thread(laptop.wait) == 0


def test_an_interrupt_that_uv_passes_on_as_well_is_one_interrupt(run: Run) -> None:
    laptop = run(channel())
    laptop.wait_until_ready()

    laptop.interrupt()
    laptop.interrupt()

    assert (laptop.wait(), laptop.survivors()) == (0, [])


@pytest.mark.parametrize("delay", [0.5, 1.0, 1.5, 2.5])
def test_an_interrupt_while_it_starts_leaves_nothing_behind(run: Run, delay: float) -> None:
    laptop = run(channel(), channel("bills"))
    time.sleep(delay)

    laptop.interrupt()
    status = laptop.wait()

    assert laptop.survivors() == []
    # The last: Python was not even through its imports.
    assert status in (0, 130, -signal.SIGINT)


async def test_a_kill_leaves_no_child_behind(run: Run, subscriber: Subscriber) -> None:
    billing = subscriber.place(Hold(Say(202)))
    laptop = run(channel(), subscription("billing", billing.uri))
    laptop.wait_until_ready()
    await emit(laptop, "1")
    await billing.wait(1)
    assert len(laptop.family()) == 5

    laptop.signal(signal.SIGKILL)

    assert (laptop.wait(), laptop.survivors()) == (-9, [])


def test_a_named_server_that_is_not_there_ends_it(run: Run) -> None:
    laptop = run(channel(), options=("--nats", "nats://127.0.0.1:1"))

    assert laptop.wait() == 1
    assert "headrace: --nats nats://127.0.0.1:1: NATS is not reachable within 10.0 s" in laptop.log
    assert laptop.survivors() == []


async def test_two_of_them_never_share_a_store(run: Run) -> None:
    run(channel()).wait_until_ready()

    second = run(channel())

    assert second.wait() == 2
    assert "is in use by another headrace up" in second.log


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param(["up", "-f", "nowhere.yaml"], "headrace: nowhere.yaml can't be read", id="no such file"),
        pytest.param(["up", "-f", ".", "--listen", "8080"], "--listen is '8080': give host:port", id="no address"),
        pytest.param(["up", "-f", ".", "--idle-seconds", "0"], "--idle-seconds is 0: give seconds", id="no window"),
        pytest.param(["up"], "Missing option '-f' / '--file'", id="no files"),
        pytest.param(
            ["up", "-f", ".", "--nats", "nats://127.0.0.1:1", "--data", "x"], "give one of them", id="two servers"
        ),
        pytest.param(["up", "-f", ".", "--data", ""], "--data is '': give a path", id="empty data"),
        pytest.param(["up", "-f", ".", "--status-file", ""], "--status-file is '': give a path", id="empty status"),
        pytest.param(["up", "-f", ".", "--nats", ""], "--nats is '': give a name", id="empty server"),
        pytest.param(["up", "-f", ""], "-f is '': give a name", id="empty file"),
        pytest.param(["up", "-f", "/dev/zero"], "/dev/zero is neither a file nor a directory", id="no end"),
    ],
)
def test_a_wrong_option_ends_with_status_2_and_one_sentence(tmp_path: Path, arguments: list[str], told: str) -> None:
    ended = headrace(tmp_path, *arguments)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert told in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_metrics_port_that_is_taken_ends_it_before_anything_is_started(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        laptop = run(channel(), options=("--metrics", at))

        assert laptop.wait() == 2
    assert re.search(rf"can't listen on {at} \(.*\): stop what does, or give another --metrics", laptop.log)
    assert "nats-server" not in laptop.log


def test_a_wrong_setting_of_nats_ends_it_before_anything_is_started(run: Run) -> None:
    laptop = run(channel(), options=("--nats", "nats://127.0.0.1:1"), NATS_TLS_FIRST="perhaps")

    assert laptop.wait() == 2
    assert "headrace: NATS_TLS_FIRST is 'perhaps': give " in laptop.log
    assert [line["event"] for line in laptop.events] == []


def test_the_help_teaches(tmp_path: Path) -> None:
    assert headrace(tmp_path, "--version").stdout.startswith("headrace ")
    assert "headrace up -f" in headrace(tmp_path, "--help").stdout
    assert "kill -HUP" in headrace(tmp_path, "up", "--help").stdout


def headrace(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headrace_cli", *arguments]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=30, check=False)


def test_it_ends_in_order_when_nobody_reads_what_it_says_any_more(tmp_path: Path) -> None:
    manifest = tmp_path / "channel.yaml"
    manifest.write_text(channel(), encoding="utf-8")
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "headrace_cli", "up", "-f", str(manifest), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=writing, stderr=writing, start_new_session=True) as up:
        try:
            os.close(writing)
            with os.fdopen(reading) as said:
                assert any(line.startswith("ready ") for line in said)
            up.send_signal(signal.SIGTERM)
            up.wait(60)
        finally:
            if up.poll() is None:
                os.killpg(up.pid, signal.SIGKILL)
    # Python itself says 120 when it can't write out what its standard streams still hold.
    assert up.returncode in (0, 120)

"""The engine under load: many publishes on their way, a server that reads too slowly, and its words on both."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time

from headrace.core.errors import Unavailable
from tests.support.waiting import until

MESSAGES = 100_000
WINDOW = 512


async def test_100_000_publishes_are_all_acknowledged_once(client):
    await client.ready(5)
    config = json.dumps({"name": "S", "subjects": ["s"], "storage": "memory"}).encode()
    await client.request("$JS.API.STREAM.CREATE.S", config, timeout=5)
    numbers = iter(range(MESSAGES))
    stored: list[int] = []

    async def worker() -> None:
        for number in numbers:
            answer = await client.request("s", b"%d" % number, headers={"Nats-Msg-Id": f"{number}"}, timeout=20)
            stored.append(json.loads(answer.data)["seq"])

    await asyncio.gather(*(worker() for _ in range(WINDOW)))
    assert sorted(stored) == list(range(1, MESSAGES + 1))
    info = json.loads((await client.request("$JS.API.STREAM.INFO.S", timeout=5)).data)
    assert info["state"]["messages"] == MESSAGES


async def test_publishers_wait_while_the_server_reads_nothing(nats_server, client):
    await client.ready(5)
    lost: list[bool] = []
    client.on_disconnect.append(lambda: lost.append(True))
    sent: list[int] = []
    sizes: list[int] = []
    await client.subscribe("large", lambda arrival: sizes.append(len(arrival.data)))
    await client.flush(5)
    nats_server.freeze()

    async def publish(number: int) -> None:
        await client.publish("large", b"x" * 1_000_000)
        sent.append(number)

    publishers = [asyncio.create_task(publish(number)) for number in range(60)]
    await asyncio.sleep(0.5)
    # What the sockets and our high-water mark hold; the rest waits outside.
    assert len(sent) < 20
    request = asyncio.create_task(client.request("large", timeout=0.2))
    await asyncio.wait([request])
    assert isinstance(request.exception(), Unavailable)
    nats_server.thaw()
    await asyncio.gather(*publishers)
    await until("all came", lambda: len(sizes) == 60, 20)
    assert not lost


async def test_a_publisher_that_waits_is_told_when_the_connection_breaks(nats_server, client):
    await client.ready(5)
    nats_server.freeze()
    publishers = [asyncio.create_task(client.publish("large", b"x" * 1_000_000)) for _ in range(60)]
    await asyncio.sleep(0.3)
    waiting = [publisher for publisher in publishers if not publisher.done()]
    assert waiting
    nats_server.kill()
    done, late = await asyncio.wait(waiting, timeout=5)
    assert not late
    assert {type(publisher.exception()) for publisher in done} == {Unavailable}
    await asyncio.gather(*publishers, return_exceptions=True)


LISTENER = """
import asyncio, sys
from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.process import log
from headrace.io.nats.client import Client

async def main():
    log.configure("info")
    client = Client(NatsSettings(url=sys.argv[1], user="me", password="s3cret"))
    await client.subscribe("anything", print)
    await asyncio.to_thread(sys.stdin.readline)
    await client.close()

asyncio.run(main())
"""


def test_the_log_says_once_what_happens_and_nothing_per_attempt(nats_server):
    nats_server.kill()
    with subprocess.Popen(
        [sys.executable, "-c", LISTENER, nats_server.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as listener:
        # So that a line that does not come fails the test instead of holding it up.
        guard = threading.Timer(30, listener.kill)
        guard.start()
        assert listener.stderr is not None
        lines = [listener.stderr.readline()]
        nats_server.start(config='authorization { user: "me", password: "other" }')
        lines.append(listener.stderr.readline())
        # Some attempts long.
        time.sleep(0.7)
        nats_server.restart(config='authorization { user: "me", password: "s3cret" }')
        lines.append(listener.stderr.readline())
        nats_server.kill()
        lines.append(listener.stderr.readline())
        time.sleep(0.7)
        nats_server.start()
        lines.append(listener.stderr.readline())
        _, rest = listener.communicate("end\n", timeout=10)
        guard.cancel()
    logged = [json.loads(line) for line in [*lines, *rest.splitlines()]]
    assert [(line["level"], line["event"]) for line in logged] == [
        ("warning", "cannot connect to NATS, still trying"),
        ("warning", "cannot log in to NATS, still trying"),
        ("info", "connection to NATS restored"),
        ("warning", "connection to NATS lost"),
        ("info", "connection to NATS restored"),
    ]
    assert "s3cret" not in "".join(lines)

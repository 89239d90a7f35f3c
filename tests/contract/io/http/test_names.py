"""Names whose look-up hangs: they fail themselves, in time, and keep nobody else waiting."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from headrace.io.http.resolver import ask_system
from headrace.io.http.socket_address import SocketAddress
from tests.support.http.http_clients import Client, opened
from tests.support.http.raw_server import ACCEPTED, answering, serving
from tests.support.loop_clock import exactly
from tests.support.waiting import until

SILENT = ".slow.test"


class Names:
    """A resolver for which the servers of some names never answer."""

    def __init__(self) -> None:
        self.hanging = 0
        self.over = threading.Event()

    def ask(self, host: str) -> list[SocketAddress]:
        if host.endswith(SILENT):
            self.hanging += 1
            self.over.wait()
            raise OSError("nobody answers")
        return ask_system(host)


@pytest.fixture
def names() -> Iterator[Names]:
    names = Names()
    yield names
    names.over.set()


async def post_to_silent(client: Client, names: Names, count: int) -> list[asyncio.Future[object]]:
    """Posts to so many names that hang, all of one zone."""
    waiting = [asyncio.ensure_future(client.post(f"http://n{turn}{SILENT}/")) for turn in range(count)]
    await until("their look-ups hang", lambda: names.hanging == count)
    return waiting


async def cancelled(waiting: list[asyncio.Future[object]]) -> None:
    for posting in waiting:
        posting.cancel()
    await asyncio.wait(waiting)


@pytest.mark.parametrize("count", [4, 14, 60])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_names_that_hang_keep_neither_a_literal_nor_another_name_waiting(names, host, count):
    async with opened(ask=names.ask) as client, serving(answering(ACCEPTED)) as server:
        waiting = await post_to_silent(client, names, count)
        assert (await exactly(0, client.post(f"http://{host}:{server.port}/"))).status == 202
        assert not any(posting.done() for posting in waiting)
        await cancelled(waiting)


async def test_names_that_hang_do_not_keep_the_process_from_looking_other_things_up(names):
    """The event loop's own look-ups are for everybody, and on uvloop they are served by four threads."""
    async with opened(ask=names.ask) as client:
        waiting = await post_to_silent(client, names, 14)
        found = await exactly(0, asyncio.get_running_loop().getaddrinfo("localhost", 80))
        assert found
        await cancelled(waiting)


async def test_a_name_that_hangs_is_an_error_after_6_seconds_and_then_at_once(names):
    async with opened(ask=names.ask) as client:
        answer = await exactly(6, client.post("http://shop.slow.test/key?token=key"))
        assert answer.status is None
        assert answer.error == (
            "the name 'shop.slow.test' can't be resolved: name look-up took too long, more than 6 s"
        )
        assert await exactly(0, client.post("http://shop.slow.test/")) == answer
        assert names.hanging == 1


async def test_the_deadline_of_the_post_comes_first_if_it_is_earlier(names):
    async with opened(ask=names.ask) as client:
        answer = await exactly(0.3, client.post("http://shop.slow.test/", seconds=0.3))
        assert answer.error == "no answer within 0.3 s"


async def test_a_client_closes_at_once_although_a_look_up_hangs(names):
    async with opened(ask=names.ask) as client:
        waiting = await post_to_silent(client, names, 1)
        await exactly(0, client.close())
        (answer,) = await asyncio.gather(*waiting)
        assert "this HTTP client is closed" in answer.error


HANGING = """
import asyncio, time
from datetime import timedelta
from headrace.core.delivery.subscriber import Destination
from headrace.io.http import HttpClient

async def main():
    client = HttpClient(ask=lambda host: time.sleep(60))
    print((await client.post(Destination("http://shop.example/"), (), b"", timedelta(seconds=0.2), 1)).error)
    await client.close()

asyncio.run(main())
"""


def test_a_process_ends_although_a_look_up_hangs():
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", HANGING], capture_output=True, text=True, timeout=50, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("no answer within 0.2 s\n", "", 0)
    assert time.monotonic() - began < 50

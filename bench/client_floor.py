"""The floor of `forward`: our HTTP client alone, posting from callbacks, as many at once as a lease holds.

    python -m bench.client_floor --url http://127.0.0.1:9000/ --events 20000

Prints one JSON object. What `forward` costs above this is its own: pulling, reading headers, acking.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from datetime import timedelta

import uvloop

from bench.requests import ATTRIBUTES, data
from headrace.core.delivery.subscriber import Destination
from headrace.core.http import Headers, HttpAnswer
from headrace.io.http import HttpClient

AT_ONCE = 100
LIMIT = 1024 * 1024
TIMEOUT = timedelta(seconds=60)
CLOSING: Headers = ((b"kn-namespace", b"bench"), (b"prefer", b"reply"))


async def post(url: str, events: int) -> dict[str, float]:
    """Seconds, and CPU of this process; every answer must be 202."""
    client = HttpClient()
    to, body = Destination(url), data()
    # So that a connection is free for each.
    await asyncio.gather(*(client.post(to, CLOSING, b"", TIMEOUT, LIMIT) for _ in range(AT_ONCE)))
    sender = client.sender(to, CLOSING, TIMEOUT, LIMIT, reply=False)
    lines = "".join(f"ce-{name}: {value}\r\n" for name, value in ATTRIBUTES.items())
    shared = f"{lines}content-type: application/json\r\nce-id: ".encode()
    numbers, left = iter(range(events)), events
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def told(answer: HttpAnswer) -> None:
        nonlocal left
        left -= 1
        if answer.status != 202:
            done.set_exception(RuntimeError(f"the sink has answered {answer}"))
        elif not left:
            done.set_result(None)
        else:
            send()

    def send() -> None:
        number = next(numbers, None)
        if number is not None and sender.send(b"%bfloor-%09d\r\n" % (shared, number), body, told) is None:
            done.set_exception(RuntimeError("no connection was free"))

    began, cpu = time.perf_counter(), time.process_time()
    for _ in range(AT_ONCE):
        send()
    await done
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    await client.close()
    return {"events": events, "seconds": seconds, "cpu_seconds": cpu}


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.client_floor", description="POST with our client alone.")
    parser.add_argument("--url", required=True)
    parser.add_argument("--events", type=int, default=20_000)
    arguments = parser.parse_args()
    print(json.dumps(uvloop.run(post(arguments.url, arguments.events))))


if __name__ == "__main__":
    main()

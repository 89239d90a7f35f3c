"""The main job in one command: `task demo`.

Starts `headrace up` on this folder's manifests and the subscribers beside it, sends orders with the official
CloudEvents SDK and with curl, in both content modes, waits until everything has settled and `forward` is back at
zero, and prints what happened. Exits 1 when a number is not what the example must give.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cloudevents.core.bindings.http import to_binary_event, to_structured_event
from cloudevents.core.v1.event import CloudEvent

sys.path.insert(0, str(Path(__file__).parent))
from subscribers import STOCK_FAILURES, Book, server

HERE = Path(__file__).parent
PER_WAY = 5
IDLE_SECONDS = 3
MAIL_RETRIES = 2
START_SECONDS = 60
SETTLE_SECONDS = 90


@dataclass(frozen=True)
class Row:
    """One line of the table: what was counted, and what the example must give (None: any number is fine)."""

    what: str
    number: object
    expected: object = None

    @property
    def right(self) -> bool:
        return self.expected is None or self.number == self.expected


class Bundle:
    """A running `headrace up`."""

    def __init__(self, process: subprocess.Popen[str], status_file: Path) -> None:
        self.process = process
        self._status_file = status_file

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = json.loads(self._status_file.read_text())
        return status

    def post(self, headers: dict[str, str], body: bytes, *, path: str = "/shop/orders", host: str | None = None) -> int:
        request = urllib.request.Request(f"{self.status()['listen']}{path}", data=body, headers=headers)
        if host:
            request.add_header("Host", host)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                status: int = answer.status
                return status
        except urllib.error.HTTPError as error:
            return error.code

    def curl(self, headers: dict[str, str], body: bytes) -> int:
        """What a person would type."""
        listen = self.status()["listen"]
        command = ["curl", "-sS", "-o", "-", "-w", "\n%{http_code}", "--data-binary", "@-"]
        for name, value in headers.items():
            command += ["-H", f"{name}: {value}"]
        command.append(f"{listen}/shop/orders")
        done = subprocess.run(command, input=body, capture_output=True, check=True)
        return int(done.stdout.decode().rsplit("\n", 1)[-1])


@contextmanager
def bundle(sink_port: int) -> Iterator[Bundle]:
    """`headrace up` on the example, its subscribers' port replaced by ours, its log kept in a file."""
    with tempfile.TemporaryDirectory(prefix="headrace-demo-") as folder:
        manifests = Path(folder) / "manifests"
        manifests.mkdir()
        for source in HERE.glob("*.yaml"):
            text = source.read_text().replace("127.0.0.1:9090", f"127.0.0.1:{sink_port}")
            (manifests / source.name).write_text(text)
        status_file, log = Path(folder) / "status.json", Path(folder) / "log.txt"
        command = [sys.executable, "-m", "headrace_cli", "up", "-f", str(manifests), "--listen", "127.0.0.1:0"]
        command += ["--idle-seconds", str(IDLE_SECONDS), "--status-file", str(status_file)]
        with log.open("w") as out:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=out, text=True)
        try:
            _wait_ready(process, log)
            yield Bundle(process, status_file)
        except BaseException:
            sys.stderr.write(log.read_text())
            raise
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_ready(process: subprocess.Popen[str], log: Path) -> None:
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.append(process.stdout.readline() if process.stdout else ""))
    reader.start()
    reader.join(START_SECONDS)
    if not lines or not lines[0].startswith("ready"):
        raise SystemExit(f"headrace up did not become ready within {START_SECONDS} s:\n{log.read_text()}")


def orders() -> Iterator[CloudEvent]:
    """Orders with what breaks careless channels: odd JSON, other alphabets, extension attributes."""
    number = 0
    while True:
        number += 1
        yield CloudEvent(
            attributes={
                "id": f"order-{number}",
                "source": "/shop/web",
                "type": "shop.order",
                "datacontenttype": "application/json",
                "customer": "Łukasz & Söhne" if number % 2 else "plain",
            },
            data=json.dumps({"order": number, "items": number % 7, "note": "3 × „Müsli“"}).encode(),
        )


def ways(up: Bundle) -> list[tuple[str, Callable[[CloudEvent], int]]]:
    """How events are sent: SDK and curl, binary and structured."""

    def sender(convert: Callable[[CloudEvent], Any], send: Callable[[dict[str, str], bytes], int]) -> Any:
        def post(event: CloudEvent) -> int:
            message = convert(event)
            return send(dict(message.headers), message.body)

        return post

    curl = up.curl if shutil.which("curl") else up.post
    by = "curl" if shutil.which("curl") else "urllib (curl is not installed)"
    host = "orders-kn-jsm-channel.shop.svc.cluster.local"
    return [
        ("SDK, binary", sender(to_binary_event, up.post)),
        ("SDK, structured", sender(to_structured_event, lambda h, b: up.post(h, b, path="/", host=host))),
        (f"{by}, binary", sender(to_binary_event, curl)),
        (f"{by}, structured", sender(to_structured_event, curl)),
    ]


def send_all(up: Bundle, book: Book) -> tuple[int, int, float]:
    """Send everything; answers what was sent, what was accepted, and the seconds from zero to the first delivery."""
    events, sent, accepted = orders(), 0, 0
    began = time.monotonic()
    for name, send in ways(up):
        for _ in range(PER_WAY):
            sent += 1
            accepted += send(next(events)) == 202
        say(f"sent {PER_WAY} orders by {name}")
    wait_for("the first delivery", lambda: bool(book.arrivals), 30)
    return sent, accepted, book.arrivals[0].at - began


def settle(up: Bundle, book: Book, sent: int) -> bool:
    """Wait until every number is final and `forward` is gone; False when it did not come to that."""
    goals = {
        "shipping": sent,
        "stock": sent * (1 + STOCK_FAILURES),
        "mail": sent * (1 + MAIL_RETRIES),
        "dead-letters": sent,
        "pricing": sent,
        "ledger": sent,
    }
    done = wait_for(
        "all deliveries",
        lambda: all(len(book.of(name)) >= goal for name, goal in goals.items()),
        SETTLE_SECONDS,
        progress=lambda: f"{len(book.arrivals)}/{sum(goals.values())} POSTs",
    )
    say("all deliveries have arrived" if done else "some deliveries are missing")
    return wait_for("forward at zero", lambda: not up.status()["forward"]["running"], IDLE_SECONDS + 20)


def table(up: Bundle, book: Book, counts: tuple[int, int, float], at_zero: bool) -> list[Row]:
    sent, accepted, first = counts
    taken = {name: delivered(book, name) for name in ("shipping", "stock", "pricing", "ledger", "dead-letters")}
    return [
        Row("sent", sent, 4 * PER_WAY),
        Row("accepted with 202", accepted, sent),
        Row("stored in the stream", stored(up), sent),
        *(Row(f"delivered to {name}", len(set(ids)), sent) for name, ids in taken.items()),
        Row("retried for stock", len(book.of("stock")) - sent, sent * STOCK_FAILURES),
        Row("retried for mail", len(book.of("mail")) - sent, sent * MAIL_RETRIES),
        Row("dead-lettered with reason", sum(map(has_reason, book.of("dead-letters"))), sent),
        Row(
            "replies in the second channel",
            sum(a.attributes["type"] == "shop.invoice" for a in book.of("ledger")),
            sent,
        ),
        Row("duplicates", sum(len(ids) - len(set(ids)) for ids in taken.values()), 0),
        Row("first delivery from zero", f"{first:.2f} s"),
        Row("forward started", up.status()["forward"]["starts"]),
        Row("forward is back at zero", "yes" if at_zero else "no", "yes"),
    ]


def delivered(book: Book, subscriber: str) -> list[str]:
    return [arrival.event for arrival in book.of(subscriber) if 200 <= arrival.status < 300]


def has_reason(arrival: Any) -> bool:
    told = arrival.attributes
    return (
        told.get("knativeerrorcode") == "500"
        and told.get("knativeerrordest", "").endswith("/mail")
        and bool(told.get("knativeerrordata"))
    )


def stored(up: Bundle) -> int:
    """Ask the server itself, in a process of its own: the demo has no event loop."""
    program = (
        "import asyncio, sys\n"
        "from headrace.core.installation.nats_settings import NatsSettings\n"
        "from headrace.io.process import log\n"
        "from headrace.io.jetstream.api import JetStreamApi\n"
        "from headrace.io.nats.client import Client\n"
        "async def main():\n"
        "    log.configure('error')\n"
        "    connection = Client(NatsSettings(url=sys.argv[1]))\n"
        "    print((await JetStreamApi(connection).call('STREAM.INFO.KN_SHOP__ORDERS'))['state']['messages'])\n"
        "    await connection.close()\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, up.status()["nats"]], capture_output=True, check=True, text=True
    )
    return int(done.stdout)


def wait_for(
    what: str, happened: Callable[[], bool], seconds: float, progress: Callable[[], str] | None = None
) -> bool:
    until, told = time.monotonic() + seconds, time.monotonic()
    while not happened():
        if time.monotonic() > until:
            say(f"gave up waiting for {what} after {seconds:.0f} s")
            return False
        if progress and time.monotonic() - told > 1:
            told = time.monotonic()
            say(f"waiting for {what}: {progress()}")
        time.sleep(0.02)
    return True


def say(text: str) -> None:
    print(f"· {text}", flush=True)


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    book = Book()
    sinks = server(0, book)
    threading.Thread(target=sinks.serve_forever, daemon=True).start()
    say("starting headrace up: nats-server, receive and the scaler; forward stays at zero")
    with bundle(sinks.server_port) as up:
        say(f"ready on {up.status()['listen']}/shop/orders, forward running: {up.status()['forward']['running']}")
        counts = send_all(up, book)
        at_zero = settle(up, book, counts[0])
        rows = table(up, book, counts, at_zero)
    width = max(len(row.what) for row in rows)
    print()
    for row in rows:
        mark = "" if row.expected is None else "ok" if row.right else f"WRONG, must be {row.expected}"
        print(f"  {row.what:{width}}  {row.number!s:>8}  {mark}".rstrip())
    print()
    wrong = [row for row in rows if not row.right]
    print("the demo passed: every number is as expected" if not wrong else f"numbers that are wrong: {len(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""The subscribers of the example, on one port; run it beside `headrace up -f examples/orders`.

/shipping takes everything, /stock fails twice per event and then recovers, /mail always fails, /dead-letters is its
sink, /pricing answers with an invoice event, /ledger takes the invoices. Standard library only.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

STOCK_FAILURES = 2


@dataclass(frozen=True)
class Arrival:
    """One POST: which subscriber, which event, its attributes, what we answered, and when (monotonic seconds)."""

    subscriber: str
    event: str
    attributes: dict[str, str]
    data: bytes
    status: int
    at: float


@dataclass
class Book:
    """Everything that has arrived."""

    arrivals: list[Arrival] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    attempts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def judge(self, subscriber: str, event: str) -> int:
        """The status that this subscriber gives to its next attempt at this event."""
        with self.lock:
            self.attempts[subscriber, event] += 1
            if subscriber == "mail":
                return 500
            if subscriber == "stock" and self.attempts[subscriber, event] <= STOCK_FAILURES:
                return 503
            return 200 if subscriber == "pricing" else 202

    def note(self, arrival: Arrival) -> None:
        with self.lock:
            self.arrivals.append(arrival)

    def of(self, subscriber: str) -> list[Arrival]:
        with self.lock:
            return [arrival for arrival in self.arrivals if arrival.subscriber == subscriber]


def invoice(order: bytes, number: str) -> tuple[dict[str, str], bytes]:
    """The reply event of the pricing subscriber, in binary mode."""
    try:
        items = int(json.loads(order)["items"])
    except (ValueError, KeyError, TypeError):
        items = 0
    headers = {
        "ce-specversion": "1.0",
        "ce-id": f"invoice-{number}",
        "ce-source": "/pricing",
        "ce-type": "shop.invoice",
        "content-type": "application/json",
    }
    return headers, json.dumps({"order": number, "total": items * 5}).encode()


def server(port: int, book: Book, *, talk: bool = False) -> ThreadingHTTPServer:
    """An HTTP server on loopback that plays all subscribers; port 0 picks a free one."""

    class Subscriber(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body leave in one packet, or the second waits for the first one's acknowledgement.
        wbufsize = -1

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers.get("content-length", 0)))
            attributes = {
                key.lower()[3:]: value for key, value in self.headers.items() if key.lower().startswith("ce-")
            }
            name, event = self.path.strip("/"), attributes.get("id", "?")
            status = book.judge(name, event)
            headers: dict[str, str] = {}
            body = b""
            if status == 500:
                body = b"the mail server is on strike"
            elif name == "pricing":
                headers, body = invoice(data, event)
            book.note(Arrival(name, event, attributes, data, status, time.monotonic()))
            self.send_response(status)
            for key, value in {**headers, "content-length": str(len(body))}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()
            if talk:
                print(f"{name:12} {event:20} {status}", flush=True)

        def log_message(self, *_: object) -> None:
            """Silent; `talk` prints what matters."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 256

    return Server(("127.0.0.1", port), Subscriber)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=9090)
    arguments = parser.parse_args()
    try:
        listening = server(arguments.port, Book(), talk=True)
    except OSError as error:
        parser.exit(2, f"can't listen on port {arguments.port}: {error}\n")
    print(f"subscribers on http://127.0.0.1:{arguments.port}", flush=True)
    try:
        listening.serve_forever()
    except KeyboardInterrupt:
        print("stopped")

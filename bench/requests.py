"""The requests that the load consists of: one CloudEvent with 1 KiB of JSON data, ready made but for its id.

Pure. Every event has its own id, since a repeated one would be dropped as a duplicate, which costs less.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum

DATA_BYTES = 1024
_END_OF_HEAD = b"\r\n\r\n"
ATTRIBUTES = {
    "specversion": "1.0",
    "type": "com.example.order.created",
    "source": "/bench/load",
    "time": "2026-11-28T12:00:00Z",
}


class Mode(StrEnum):
    BINARY = "binary"
    STRUCTURED = "structured"


@dataclass(frozen=True, slots=True)
class Template:
    """A request split at the event's number, which always has nine digits, so that no length ever changes."""

    before: bytes
    after: bytes

    def request(self, number: int) -> bytes:
        return b"%b%09d%b" % (self.before, number, self.after)

    def head_and_body(self, number: int) -> tuple[bytes, bytes]:
        """The same request in the two pieces in which Go's clients write it."""
        head, end, body = self.request(number).partition(_END_OF_HEAD)
        return head + end, body


def data() -> bytes:
    """JSON of exactly `DATA_BYTES`."""
    frame = json.dumps({"order": 4711, "items": [{"sku": "A-1", "count": 2}], "note": ""})
    return frame.replace('"note": ""', f'"note": "{"x" * (DATA_BYTES - len(frame))}"').encode()


def template(mode: Mode, path: str, run: str, authorization: str = "") -> Template:
    """A request for `path`.

    Args:
        run: tells the events of this run from all others on the same stream; part of the id.
        authorization: the value of the header; empty for none.
    """
    shown = f"authorization: {authorization}\r\n" if authorization else ""
    return _binary(path, run, shown) if mode is Mode.BINARY else _structured(path, run, shown)


def _binary(path: str, run: str, shown: str) -> Template:
    body = data()
    attributes = "".join(f"ce-{name}: {value}\r\n" for name, value in ATTRIBUTES.items())
    before = f"{_head(path, 'application/json', len(body))}{shown}{attributes}ce-id: {run}-"
    return Template(before.encode(), _END_OF_HEAD + body)


def _structured(path: str, run: str, shown: str) -> Template:
    number = "0" * 9
    attributes = {**ATTRIBUTES, "datacontenttype": "application/json", "id": f"{run}-{number}"}
    opening = json.dumps(attributes).removesuffix("}").encode() + b', "data": '
    body = opening + data() + b"}"
    head = f"{_head(path, 'application/cloudevents+json', len(body))}{shown}\r\n".encode()
    before, after = (head + body).split(number.encode(), 1)
    return Template(before, after)


def _head(path: str, content_type: str, length: int) -> str:
    return (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nuser-agent: headrace-bench\r\n"
        f"content-type: {content_type}\r\ncontent-length: {length}\r\n"
    )

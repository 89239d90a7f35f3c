"""Streams with messages in them, for the Spark tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.core.nats.nats_wire import header_block
from pyspark_jetstream.client import BlockingApi, Outgoing, Publisher

Message = tuple[str, Mapping[str, str], bytes]


class Streams:
    """Streams of one test; the first has the test's own name.

    Attributes:
        name: that no other test has; subjects begin with it in lower case.
    """

    def __init__(self, jetstream: BlockingApi, name: str) -> None:
        self.jetstream = jetstream
        self.name = name

    @property
    def root(self) -> str:
        return self.name.lower()

    def make(self, suffix: str = "", **config: Any) -> str:
        """A stream that captures `<root>.>`, or with a suffix `<root><suffix>.>`."""
        name = f"{self.name}{suffix}"
        subjects = [f"{name.lower()}.>"]
        wanted = {"name": name, "subjects": subjects, "storage": "memory", "allow_direct": True, **config}
        self.jetstream.call(f"STREAM.CREATE.{name}", wanted)
        return name

    def delete(self, name: str) -> None:
        self.jetstream.call(f"STREAM.DELETE.{name}")

    def store(self, messages: Iterable[Message]) -> None:
        """Publish and wait for every PubAck."""
        publisher = Publisher(self.jetstream.connection)
        for subject, headers, data in messages:
            publisher.send(Outgoing(subject, header_block(headers) if headers else b"", data))
        publisher.finish()

    def fill(self, count: int, *, start: int = 0, suffix: str = "", data: bytes = b"x" * 50) -> None:
        """So many messages, on ten subjects, with a number in a header and in the data."""
        root = f"{self.root}{suffix.lower()}"
        self.store(
            (f"{root}.s{n % 10}", {"n": str(n), "kind": "order"}, b"%d %b" % (n, data))
            for n in range(start, start + count)
        )

"""The stage of the Spark bench: nats-server with a full stream, and a local Spark on all cores."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import SparkSession

from bench.processes import cpu_seconds, peak_rss
from headrace.core.event import nats_codec
from headrace.core.event.event import make_event
from headrace.core.nats.nats_wire import header_block
from pyspark_jetstream.client import Access, BlockingApi, Connection, Outgoing, Publisher
from tests.support.nats.nats_server import NatsServer
from tests.support.spark.spark_session import local_session

STREAM = "BENCH"
SUBJECT = "bench.orders"
DATA_BYTES = 300


@dataclass(frozen=True, slots=True)
class Costs:
    """CPU seconds so far: of all Python workers of Spark, of its JVM, and of nats-server."""

    python: float
    jvm: float
    nats: float

    def since(self, before: Costs) -> Costs:
        return Costs(self.python - before.python, self.jvm - before.jvm, self.nats - before.nats)


@dataclass(frozen=True, slots=True)
class Stage:
    """Attributes:
    messages: in the stream.
    tasks: that run at a time; our readers without Spark are as many processes.
    seen: CPU seconds of Python workers by process.
    """

    nats: NatsServer
    spark: SparkSession
    messages: int
    tasks: int
    seen: dict[int, float] = field(default_factory=dict)

    def costs(self) -> Costs:
        for process in self._workers():
            with contextlib.suppress(psutil.NoSuchProcess):
                self.seen[process.pid] = cpu_seconds(process.pid)
        # Of workers that have ended meanwhile what was last seen; planners live too shortly to be seen.
        gone = self._jvm().cpu_times()
        python = sum(self.seen.values()) + float(gone.children_user + gone.children_system)
        return Costs(python, cpu_seconds(self._jvm().pid), cpu_seconds(self.nats.pid))

    def peaks(self) -> tuple[int, int]:
        """The most memory that any one Python worker has held since it was started, and the JVM; bytes."""
        return max((peak_rss(process.pid) for process in self._workers()), default=0), peak_rss(self._jvm().pid)

    def _jvm(self) -> psutil.Process:
        children = psutil.Process().children(recursive=True)
        return next(process for process in children if process.name() == "java")

    def _workers(self) -> list[psutil.Process]:
        return [process for process in self._jvm().children(recursive=True) if process.name().startswith("python")]

    def read_without_spark(self, kind: str, messages: int, processes: int) -> dict[str, Any]:
        """So many processes, each with an equal range; rows, wall and CPU seconds in all."""
        share = messages // processes
        running = []
        for at in range(processes):
            command = [sys.executable, "-m", "bench.spark.readers", kind, "--servers", self.nats.url]
            command += ["--stream", STREAM, "--start", str(1 + at * share), "--end", str(1 + (at + 1) * share)]
            running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        found = []
        for process in running:
            words, _ = process.communicate(timeout=600)
            if process.returncode:
                raise RuntimeError(f"the {kind} reader ended with {process.returncode}")
            found.append(json.loads(words))
        return {
            "rows": sum(one["rows"] for one in found),
            # They begin within milliseconds of each other; starting Python is not counted.
            "seconds": max(one["seconds"] for one in found),
            "cpu_seconds": sum(one["cpu_seconds"] for one in found),
            "peak_bytes": max(one["peak_bytes"] for one in found),
        }

    def make_empty(self, name: str, **config: Any) -> str:
        """A stream to write to, without anything in it; its subject."""
        with Connection(Access(self.nats.url)) as connection:
            jetstream = BlockingApi(connection)
            if jetstream.stream(name) is not None:
                jetstream.call(f"STREAM.DELETE.{name}")
            jetstream.call(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name.lower()}.>"], **config})
        return f"{name.lower()}.a"

    def count(self, name: str) -> int:
        with Connection(Access(self.nats.url)) as connection:
            info = BlockingApi(connection).stream(name)
            return 0 if info is None else info.messages


@contextmanager
def opened(directory: Path, messages: int, tasks: int) -> Iterator[Stage]:
    """Start, fill, and stop everything at the end, whatever happened."""
    nats = NatsServer(directory / "nats").start()
    os.environ["NATS_URL"] = nats.url
    try:
        _fill(nats.url, messages)
        with local_session(str(tasks), shuffles=tasks) as spark:
            yield Stage(nats, spark, messages, tasks)
    finally:
        nats.stop()


def _fill(servers: str, messages: int) -> None:
    """Events as `receive` stores them: 6 headers, 300 B of data."""
    with Connection(Access(servers)) as connection:
        jetstream = BlockingApi(connection)
        jetstream.call(f"STREAM.CREATE.{STREAM}", {"name": STREAM, "subjects": ["bench.>"], "allow_direct": True})
        publisher = Publisher(connection)
        for number in range(messages):
            attributes = {
                "specversion": "1.0",
                "id": f"{number:08d}",
                "source": "/bench/shop",
                "type": f"order.{number % 10}",
                "datacontenttype": "application/json",
            }
            stored = nats_codec.to_binary(make_event(attributes, b"x" * DATA_BYTES), SUBJECT)
            publisher.send(Outgoing(stored.subject, header_block(stored.headers), stored.data))
        publisher.finish()

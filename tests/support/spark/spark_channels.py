"""A channel's stream with events in it, for the tests of the Spark jobs."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from headrace.core.event import nats_codec
from headrace.core.event.event import make_event
from tests.support.spark.spark_streams import Streams


class Channel:
    """A channel's stream, with events in it."""

    def __init__(self, streams: Streams, name: str) -> None:
        self.streams = streams
        self.name = f"{streams.root}/{name}"
        self.subject = f"{streams.root}.{name}._knative"
        self.stream = streams.make(f"_{name}", subjects=[self.subject])

    def send(self, count: int, *, start: int = 0, **attributes: str) -> None:
        made = (
            nats_codec.to_binary(
                make_event(
                    {
                        "specversion": "1.0",
                        "id": f"{number}",
                        "source": "/shop",
                        "type": f"order.{number % 3}",
                        **attributes,
                    },
                    b"%d" % number,
                ),
                self.subject,
                ((b"traceparent", b"00-%032x-%016x-01" % (number, number)),),
            )
            for number in range(start, start + count)
        )
        self.streams.store((one.subject, one.headers, one.data) for one in made)

    @property
    def count(self) -> int:
        info = self.streams.jetstream.stream(self.stream)
        assert info is not None
        return info.messages

    def events(self, spark: SparkSession) -> list[tuple[Any, ...]]:
        frame = spark.read.format("jetstream").option("stream", self.stream).option("cloudevents", "true")
        columns = "id string, source string, type string, data binary, headers map<string,string>"
        rows = frame.schema(columns).load().collect()
        return [(row.id, row.source, row.type, bytes(row.data), row.headers["traceparent"]) for row in rows]

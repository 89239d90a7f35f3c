"""The rows of the Spark bench: each reads or writes once per round, and says how many rows it has moved."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from bench.spark.stage import DATA_BYTES, STREAM, Stage

WRITTEN = "BENCH_WRITTEN"


@dataclass(frozen=True, slots=True)
class Sample:
    """One round of one row; CPU of Python (Spark's workers, or the reader itself), the JVM and nats-server.

    Attributes:
        peak_bytes: the most memory that one Python process has held so far, which is more than this row's own; 0 for
            not known.
    """

    rows: int
    seconds: float
    python_seconds: float
    jvm_seconds: float = 0.0
    nats_seconds: float = 0.0
    peak_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Target:
    """What a row must hold.

    Attributes:
        least_ratio: to the rows per second of another row.
        to: that row.
    """

    most_python_us: float | None = None
    least_per_second: float | None = None
    least_ratio: float | None = None
    to: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    what: str
    measure: Callable[[Stage], Sample]
    targets: tuple[Target, ...] = ()


def rows() -> list[Row]:
    """In the order in which every round runs them."""
    against = (Target(least_ratio=0.6, to="raw"), Target(least_ratio=5.0, to="nats-py"))
    return [
        Row("raw", "our client to Arrow, without Spark, as many processes", _raw),
        Row("nats-py", "a reader on nats-py to Arrow, as many processes, a tenth of the messages", _nats_py),
        Row("count", "count, headers read", _read(lambda frame: frame.count()), (Target(7.0), *against)),
        Row("groupBy", "groupBy a header", _read(_by_header), against),
        Row(
            "count-no-headers",
            "count, includeHeaders false",
            _read(lambda frame: frame.count(), includeHeaders="false"),
            (Target(4.0),),
        ),
        Row("direct", "count, headers read, mode direct", _read(lambda frame: frame.count(), mode="direct")),
        Row("cloudevents", "groupBy type of CloudEvents columns", _read(_by_type, cloudevents="true"), (Target(12.0),)),
        Row("write", "messages with headers, acked one by one", _write(fast=False), (Target(least_per_second=40_000),)),
        Row("write-fast", "the same by fast ingest", _write(fast=True)),
        Row("write-events", "CloudEvents columns, acked one by one", _write(fast=False, events=True)),
    ]


def _raw(stage: Stage) -> Sample:
    return _without_spark(stage, "raw", stage.messages, stage.tasks)


def _nats_py(stage: Stage) -> Sample:
    return _without_spark(stage, "nats-py", stage.messages // 10, stage.tasks)


def _without_spark(stage: Stage, kind: str, messages: int, processes: int) -> Sample:
    before = stage.costs()
    found = stage.read_without_spark(kind, messages, processes)
    nats = stage.costs().since(before).nats
    return Sample(found["rows"], found["seconds"], found["cpu_seconds"], 0.0, nats, found["peak_bytes"])


def _read(action: Callable[[DataFrame], object], **options: str) -> Callable[[Stage], Sample]:
    def measure(stage: Stage) -> Sample:
        options_here = {**options, "stream": STREAM, "maxMessagesPerPartition": str(-(-stage.messages // stage.tasks))}
        frame = stage.spark.read.format("jetstream").options(**options_here).load()
        return _timed(stage, lambda: action(frame), stage.messages)

    return measure


def _by_header(frame: DataFrame) -> None:
    frame.groupBy(f.col("headers")["ce-type"]).count().collect()


def _by_type(frame: DataFrame) -> None:
    frame.groupBy("type").count().collect()


def _write(*, fast: bool, events: bool = False) -> Callable[[Stage], Sample]:
    def measure(stage: Stage) -> Sample:
        subject = stage.make_empty(WRITTEN, allow_batched=fast)
        number = f.lpad(f.col("id").cast("string"), 8, "0")
        source = stage.spark.range(0, stage.messages, numPartitions=stage.tasks)
        data = f.rpad(number, DATA_BYTES, "x").alias("data")
        kind = f.concat(f.lit("order."), f.col("id") % 10)
        attributes = {"id": number, "source": f.lit("/bench/shop"), "type": kind}
        if events:
            frame = source.select(*[value.alias(name) for name, value in attributes.items()], data)
        else:
            headers = {f"ce-{name}": value for name, value in attributes.items()}
            headers |= {"ce-specversion": f.lit("1.0"), "content-type": f.lit("application/json")}
            pairs = [part for name, value in headers.items() for part in (f.lit(name), value)]
            frame = source.select(f.create_map(*pairs).alias("headers"), data)
        options = {"subject": subject, "cloudevents": str(events).lower(), "fastIngest": "auto" if fast else "off"}
        writer = frame.write.format("jetstream").mode("append").options(**options)
        sample = _timed(stage, writer.save, stage.messages)
        if stage.count(WRITTEN) != stage.messages:
            raise RuntimeError(f"of {stage.messages} rows {stage.count(WRITTEN)} are in the stream")
        return sample

    return measure


def _timed(stage: Stage, action: Callable[[], object], rows: int) -> Sample:
    before, began = stage.costs(), time.monotonic()
    action()
    seconds, cost = time.monotonic() - began, stage.costs().since(before)
    return Sample(rows, seconds, cost.python, cost.jvm, cost.nats, stage.peaks()[0])

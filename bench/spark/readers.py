"""A reader as a program: `python -m bench.spark.readers raw|nats-py --servers … --start … --end …`.

Reads a range of the stream into Arrow record batches and prints what it cost. `raw` is our own client without Spark,
the floor; `nats-py` is the usual client of Python programs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import Iterator

import nats
import pyarrow as pa
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from bench.processes import peak_rss
from pyspark_jetstream.client import Access, BlockingApi, Connection, read_pulled
from pyspark_jetstream.rows import record_batch

MAP = pa.map_(pa.string(), pa.string())
SCHEMA = pa.schema(
    [
        ("stream", pa.string()),
        ("subject", pa.string()),
        ("sequence", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("headers", MAP),
        ("data", pa.binary()),
    ]
)
FETCH = 1000


def raw(servers: str, stream: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
    with Connection(Access(servers)) as connection:
        for chunk in read_pulled(BlockingApi(connection), stream, start, end):
            yield record_batch(chunk, stream, SCHEMA)


async def by_nats_py(servers: str, stream: str, start: int, end: int) -> int:
    """As a careful user of nats-py writes it: large fetches, no acks, columns and not rows."""
    client = await nats.connect(servers)
    jetstream = client.jetstream()
    config = ConsumerConfig(
        deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
        opt_start_seq=start,
        ack_policy=AckPolicy.NONE,
        mem_storage=True,
    )
    subscription = await jetstream.pull_subscribe("", stream=stream, config=config)
    rows = 0
    while rows < end - start:
        messages = await subscription.fetch(min(FETCH, end - start - rows), timeout=30)
        batch = pa.RecordBatch.from_arrays(
            [
                pa.array([message.metadata.stream for message in messages], pa.string()),
                pa.array([message.subject for message in messages], pa.string()),
                pa.array([message.metadata.sequence.stream for message in messages], pa.int64()),
                pa.array([message.metadata.timestamp for message in messages], pa.timestamp("us", "UTC")),
                pa.array([list((message.headers or {}).items()) for message in messages], MAP),
                pa.array([message.data for message in messages], pa.binary()),
            ],
            schema=SCHEMA,
        )
        rows += batch.num_rows
    await client.close()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.spark.readers")
    parser.add_argument("kind", choices=("raw", "nats-py"))
    parser.add_argument("--servers", required=True)
    parser.add_argument("--stream", required=True)
    parser.add_argument("--start", type=int, required=True)
    parser.add_argument("--end", type=int, required=True)
    given = parser.parse_args()
    words = (given.servers, given.stream, given.start, given.end)
    # From here on, so that what Python takes to start is not counted.
    cpu, began = time.process_time(), time.monotonic()
    rows = sum(batch.num_rows for batch in raw(*words)) if given.kind == "raw" else asyncio.run(by_nats_py(*words))
    cost = {"rows": rows, "seconds": time.monotonic() - began, "cpu_seconds": time.process_time() - cpu}
    cost["peak_bytes"] = peak_rss(os.getpid())
    print(json.dumps(cost))


if __name__ == "__main__":
    main()

"""Spark reads and writes NATS JetStream: the data source `jetstream`.

Installed, it is found by Spark itself. Shipped as a zip (`--py-files`), register it:

    from pyspark_jetstream import JetStreamDataSource
    spark.dataSource.register(JetStreamDataSource)

Spark imports every package of this kind at the first look-up of any source, so nothing is imported here before it is
asked for. `DefaultSource` is the name that Spark looks for.
"""

from __future__ import annotations

from typing import Any

__all__ = ["DefaultSource", "JetStreamDataSource"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from pyspark_jetstream.source import JetStreamDataSource

        return JetStreamDataSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

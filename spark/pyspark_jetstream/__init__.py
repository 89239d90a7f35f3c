"""Spark reads and writes NATS JetStream: the data source `jetstream`.

Spark finds an installed package by itself. A package that is shipped as a zip (`--py-files`) has to be registered:

    from pyspark_jetstream import JetStreamDataSource
    spark.dataSource.register(JetStreamDataSource)

Spark imports every package of this kind at the first look-up of any source, so this module imports nothing before it is
asked for the class. `DefaultSource` is the name that Spark looks for.
"""

from __future__ import annotations

from typing import Any

__all__ = ["DefaultSource", "JetStreamDataSource"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from pyspark_jetstream.source import JetStreamDataSource

        return JetStreamDataSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

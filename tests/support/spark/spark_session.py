"""A local Spark whose JVM and Python workers are gone when it is left, whatever happened in it.

`SparkSession.stop` leaves the JVM running until this process ends, and a little longer.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil
from pyspark import SparkContext
from pyspark.sql import SparkSession

# Of busy cores; what is still there then was killed, and the kernel has not come to it.
END_SECONDS = 30.0


@contextmanager
def local_session(slots: str, shuffles: int = 2) -> Iterator[SparkSession]:
    """Workers are this Python, with its environment as it is now.

    Args:
        slots: tasks at a time, and the tries of each if there is more than one, as in `local[2,2]`.
        shuffles: partitions after a shuffle.
    """
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    try:
        session = (
            SparkSession.builder.master(f"local[{slots}]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", str(shuffles))
            .config("spark.sql.session.timeZone", "UTC")
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("ERROR")
        try:
            yield session
        finally:
            session.stop()
    finally:
        _end()


def _end() -> None:
    """Kill the JVM and all that it has started; a later session makes another one."""
    gateway = SparkContext._gateway
    if gateway is None:
        return
    with suppress(psutil.NoSuchProcess):
        jvm = psutil.Process(gateway.proc.pid)
        # The daemon of the workers would outlive the JVM by a moment.
        started = [*jvm.children(recursive=True), jvm]
        gateway.shutdown()
        for process in started:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        _, alive = psutil.wait_procs(started, END_SECONDS)
        assert not alive, f"Spark's processes can't be killed: {alive}"
    gateway.proc.stdin.close()
    gateway.proc.wait(END_SECONDS)
    SparkContext._gateway = SparkContext._jvm = None

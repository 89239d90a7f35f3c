"""The README's few lines for Spark do what they say."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.nats.nats_server import NatsServer
from tests.support.spark.spark_channels import Channel

README = (Path(__file__).parents[2] / "README.md").read_text()


def test_the_snippet_counts_a_channel_by_type(
    spark: SparkSession,
    nats_server: NatsServer,
    orders: Channel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its `getOrCreate` gets this suite's session."""
    _, snippet = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    orders.send(5)
    code = snippet.replace("shop/orders", orders.name).replace("nats://127.0.0.1:4222", nats_server.url)
    assert code.count(orders.name) == code.count(nats_server.url) == 1
    program = tmp_path / "count_orders.py"
    program.write_text(code)
    # As for a reader, who has no such variable: the server is the snippet's.
    monkeypatch.delenv("NATS_URL")

    runpy.run_path(str(program))

    rows = re.findall(r"^\| *(\S+)\| *(\d+)\|$", capsys.readouterr().out, re.MULTILINE)
    assert sorted(rows) == [("order.0", "2"), ("order.1", "2"), ("order.2", "1")]
    assert orders.count == 5

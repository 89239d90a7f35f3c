"""The README's few lines for Spark do what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.nats_server import NatsServer
from tests.support.spark_streams import Streams

README = (Path(__file__).parents[2] / "README.md").read_text()

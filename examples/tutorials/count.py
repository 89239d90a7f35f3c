"""The Spark program of the tutorial: how many events of each type does the channel default/hello hold?

python examples/tutorials/count.py STATUS_FILE      as `headrace up --status-file` writes it: it says where NATS is
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from pyspark_jetstream import JetStreamDataSource

servers = json.loads(Path(sys.argv[1]).read_text())["nats"]
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
spark.dataSource.register(JetStreamDataSource)

events = (
    spark.read.format("jetstream")
    .option("servers", servers)
    .option("channel", "default/hello")
    .option("cloudevents", "true")
    .schema("type string")
    .load()
)
for row in events.groupBy("type").count().orderBy("type").collect():
    print(row["type"], row["count"])
spark.stop()

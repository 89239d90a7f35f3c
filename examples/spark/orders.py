# %% [markdown]
# # Orders, written and read with Spark
# Cells for a notebook (VS Code, Jupytext) that run as a program, too. They need a nats-server with JetStream, named by
# NATS_URL; as `docker run --rm -p 4222:4222 nats -js` gives one.

# %%
"""A stream in Spark: write events, query them with SQL, follow them, and send some of them on."""

from __future__ import annotations

import os
import sys
import tempfile

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from pyspark_jetstream import JetStreamDataSource
from pyspark_jetstream.client import Access, BlockingApi, Connection

COUNT = 1000
servers = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

# %% [markdown]
# ## Two streams
# Where Headrace runs, a channel's manifest makes its stream, and `option("channel", "shop/orders")` names it. Here is
# none, so we make two by hand.

# %%
with Connection(Access(servers)) as connection:
    jetstream = BlockingApi(connection)
    for name in ("EXAMPLE_ORDERS", "EXAMPLE_LARGE"):
        if jetstream.stream(name) is not None:
            jetstream.call(f"STREAM.DELETE.{name}")
        jetstream.call(f"STREAM.CREATE.{name}", {"name": name, "subjects": [name.lower().replace("_", ".")]})

spark = SparkSession.builder.appName("orders").config("spark.ui.enabled", "false").getOrCreate()
spark.dataSource.register(JetStreamDataSource)

# %% [markdown]
# ## Write events
# Columns are attributes; what is none of CloudEvents' own is an extension. Run this cell twice: within the stream's
# duplicate window the second run stores nothing, as source and id are the same.

# %%
orders = spark.range(COUNT).select(
    f.col("id").cast("string").alias("id"),
    f.lit("/shop").alias("source"),
    f.when(f.col("id") % 10 == 0, "order.cancelled").otherwise("order.created").alias("type"),
    f.lit("application/json").alias("datacontenttype"),
    (f.col("id") % 7).cast("string").alias("partitionkey"),
    f.to_json(f.struct((f.col("id") % 50).alias("amount"))).alias("data"),
)
write = orders.write.format("jetstream").mode("append").option("servers", servers).option("cloudevents", "true")
write.option("subject", "example.orders").save()

# %% [markdown]
# ## Query them

# %%
spark.sql(f"""
    CREATE OR REPLACE TEMPORARY VIEW orders USING jetstream
    OPTIONS (servers '{servers}', stream 'EXAMPLE_ORDERS', cloudevents 'true')
""")
by_type = spark.sql("""
    SELECT type, count(*) AS events, sum(CAST(get_json_object(CAST(data AS STRING), '$.amount') AS INT)) AS amount
    FROM orders GROUP BY type ORDER BY type
""")
by_type.show()

# %% [markdown]
# ## Follow them
# Large orders go to another stream, each once, whatever dies: offsets lie in the checkpoint, ids in the messages, and
# the commit marker covers a restart that takes longer than the server remembers ids.

# %%
followed = (
    spark.readStream.format("jetstream")
    .option("servers", servers)
    .option("stream", "EXAMPLE_ORDERS")
    .option("cloudevents", "true")
    .option("startingOffsets", "earliest")
    .load()
)
large = followed.where("CAST(get_json_object(CAST(data AS STRING), '$.amount') AS INT) >= 45")
query = (
    large.writeStream.format("jetstream")
    .option("servers", servers)
    .option("cloudevents", "true")
    .option("subject", "example.large")
    .option("commitMarker", "true")
    .option("checkpointLocation", tempfile.mkdtemp(prefix="orders-"))
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()

# %% [markdown]
# ## What has become of it

# %%
copied = spark.read.format("jetstream").option("servers", servers).option("stream", "EXAMPLE_LARGE").load().count()
found = {row.type: row.events for row in by_type.collect()}
print(f"{found}, of which {copied} are large")
assert found == {"order.cancelled": COUNT // 10, "order.created": COUNT - COUNT // 10}, found
assert copied == COUNT // 10, copied
spark.stop()

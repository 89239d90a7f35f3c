"""The bench of the Spark source: its readers and writers, held against programs without Spark.

stage.py     nats-server with a full stream, a local Spark, and what each process costs
rows.py      what is measured
readers.py   programs of their own: the raw reader, and one on nats-py
report.py    medians, ratios, the targets, a table
chart.py     bars
"""

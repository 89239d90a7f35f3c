"""The writing half of the data source: rows become messages, each stored once.

options.py   the user's wishes, checked on the driver
columns.py   which column plays which part
messages.py  record batches to messages and faulty rows
ids.py       the `Nats-Msg-Id`s that keep a repeated task from storing anything twice
target.py    the stream that is written to, as the server knows it
marker.py    the commit marker: how far a run has got, beyond the server's memory of ids
task.py      one partition, from its first row to its last ack
writers.py   Spark's two classes
"""

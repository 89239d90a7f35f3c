"""A blocking NATS client for Spark's tasks, over `headrace.core.nats.nats_wire`.

    access.py       where the servers are and who we are, as a value that can be shipped to executors
    link.py         one connection: a socket, frames in, bytes out
    connection.py   a link that is made anew on another server; requests
    api.py          the JetStream API: streams, consumers, single messages
    messages.py     columns of stored messages
    patience.py     reading on, try after try, until there was no progress for too long
    pull.py         a range of sequences by an ephemeral consumer
    direct.py       a range of sequences by batched Direct Get
    publish.py      publishes with a window of acks
    fast_publish.py the same by fast ingest, where a stream allows it

Needs the standard library and `headrace.core` only. One thread and one connection per task; nothing runs in the
background.
"""

from pyspark_jetstream.client.access import Access, Secret
from pyspark_jetstream.client.api import BlockingApi, StreamInfo
from pyspark_jetstream.client.connection import Connection
from pyspark_jetstream.client.direct import read_direct
from pyspark_jetstream.client.fast_publish import FastPublisher
from pyspark_jetstream.client.link import LinkBroken
from pyspark_jetstream.client.messages import Messages
from pyspark_jetstream.client.publish import Outgoing, Publisher
from pyspark_jetstream.client.pull import read_pulled

__all__ = [
    "Access",
    "BlockingApi",
    "Connection",
    "FastPublisher",
    "LinkBroken",
    "Messages",
    "Outgoing",
    "Publisher",
    "Secret",
    "StreamInfo",
    "read_direct",
    "read_pulled",
]

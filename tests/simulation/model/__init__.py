"""A model of one nats-server 2.15 with JetStream, in the verbs that our product uses; for histories under one seed.

It speaks the wire protocol on any asyncio loop. `test_model_against_nats` holds it to the real server, command by
command. Whatever is not modelled raises `Unmodelled`.

    server.py       connections, who hears what, death and return
    connection.py   one client's bytes
    api.py          the JetStream API: streams_api.py, consumers_api.py, direct.py
    stream.py       limits and the duplicate window of one stream, over messages.py
    publishing.py   a message for a stream, and its PubAck
    consumer.py     what goes out next: pulls.py (who asks; pull_request.py, pin.py), unsettled.py (what comes again),
                    acks.py (what is settled), idleness.py
    disk.py         what a crash or a loss of power leaves: saved_state.py, recovery.py
    watch.py        the frames at which somebody may strike

What is simpler than in the server:

* One server, one account, one thread: a frame is acted upon as a whole before the next is read. No cluster, no leaf
  nodes, no users, no TLS, no queue groups.
* Configurations that we never make are refused: push consumers, mirrors, transforms, `max_deliver`, an end of filters.
* What a limit alone has deleted comes back at a crash, as in the server, until the stream was once empty; the server
  forgets it every two minutes, too, when it writes its index.
* No slow consumers: what a client does not read waits without bound.
* `num_pending` is counted exactly; the server keeps a running number, which may be off for a moment.
* The duplicate window is exact; the server's sweep of it may be 50 ms late.
* Limits of age are looked at when the oldest is due, a quarter of a second later at the earliest.
* Configurations, and that a stream or consumer exists, survive every loss of power.
* A pause is modelled, but not compared: which of several pulls a resumed consumer serves first differs at times.
* The minute-wise look at ack floors that have drifted does not exist: here they can't drift.
"""

from tests.simulation.model.disk import Disk
from tests.simulation.model.refusals import Unmodelled
from tests.simulation.model.server import JetStreamModel, Trouble
from tests.simulation.model.watch import Seen

__all__ = ["Disk", "JetStreamModel", "Seen", "Trouble", "Unmodelled"]

"""From what is on disk to a server that serves again: after a crash, or after a loss of power."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.model.consumer import Consumer
from tests.simulation.model.consumers_api import described
from tests.simulation.model.saved_state import SavedState

if TYPE_CHECKING:
    from tests.simulation.model.disk import Cut
    from tests.simulation.model.server import JetStreamModel


def crash(server: JetStreamModel, older: float) -> None:
    """Forget what was only in memory."""
    for name, stream in list(server.streams.items()):
        if stream.config["storage"] == "memory":
            del server.streams[name]
            continue
        stream.come_back()
        for consumer in list(stream.consumers.values()):
            if consumer.config.get("mem_storage"):
                server.disk.forget(consumer)
                del stream.consumers[consumer.name]
            else:
                _reborn(consumer, server.disk.crash(consumer, older))


def lose_power(server: JetStreamModel, cut: Cut) -> None:
    """Forget that, and what was not synced."""
    for stream in server.streams.values():
        server.disk.lose_power(stream, cut)
    crash(server, 0.0)


def begin(server: JetStreamModel) -> None:
    """Serve: read the identities of messages anew, and mend consumers that are ahead of their stream."""
    for stream in server.streams.values():
        stream.recover()
        for consumer in stream.consumers.values():
            if not server.disk.replicated and 0 < stream.kept.last < consumer.next_sequence - 1:
                _reconcile(consumer, stream.kept.last)
            consumer.begin()
            consumer.first_info = described(consumer)


def _reborn(old: Consumer, state: SavedState) -> None:
    """Another consumer in the place of the one whose process has died."""
    consumer = Consumer(old.stream, old.name, old.config)
    consumer.created = old.created
    consumer.restore(state)
    old.stream.consumers[old.name] = consumer


def _reconcile(consumer: Consumer, last: int) -> None:
    """The stream has lost what the consumer knows: go back to what there is, and keep the highest known numbers."""
    pending, counts = consumer.pending, consumer.counts
    if consumer.floor_sequence > last:
        consumer.floor_sequence = last
        consumer.floor_delivery = max(0, consumer.next_delivery - 1)
        pending.clear()
        counts.clear()
    for sequence in [one for one in pending if one > last]:
        del pending[sequence]
    for sequence in [one for one in counts if one > last]:
        del counts[sequence]
    if pending:
        consumer.next_sequence = max(pending) + 1
        consumer.next_delivery = max(one.delivery for one in pending.values()) + 1
    else:
        consumer.next_sequence, consumer.next_delivery = consumer.floor_sequence + 1, consumer.floor_delivery + 1
    consumer.saved = consumer.state()
    consumer.stream.server.disk.made(consumer)

"""The witness at the server: notes each frame upon which it acts, and at the end what has been left there."""

from __future__ import annotations

import json
from collections.abc import Callable

from headrace.core.delivery import stage_record, sunk
from headrace.core.delivery.parked import ATTEMPTS, CONSUMER, DESTINATION, ORIGIN_SEQUENCE, REASON, STATUS
from tests.simulation.ledger import Act, Ledger, ParkedCopy
from tests.simulation.model import blocks
from tests.simulation.model.messages import Stored
from tests.simulation.model.server import JetStreamModel
from tests.simulation.model.watch import Seen
from tests.simulation.plan import Plan
from tests.simulation.world import content

ASIDE = "._knative_aside."
STAGE, PARKED = "stage", "parked"
_SECOND = 1_000_000_000


class Witness:
    """It sees frames in the order in which the server acts upon them."""

    def __init__(
        self,
        plan: Plan,
        ledger: Ledger,
        model: JetStreamModel,
        subscription: Callable[[str], str],
        now: Callable[[], float],
        epoch: float,
    ) -> None:
        """Args:
        subscription: gives `c0/s0` of a consumer's name.
        epoch: the true time of day at which the history begins.
        """
        self._plan = plan
        self._ledger = ledger
        self._model = model
        self._subscription = subscription
        self._now = now
        self._epoch = epoch

    def acted(self, seen: Seen, host: str) -> None:
        """The server has acted upon a frame of this host, or handed one over to it."""
        match seen.verb:
            case "ACK" | "ACK_SYNC" | "NAK" | "WPI":
                self._settled(seen, host)
            case "DELIVERY":
                self._delivered(seen, host)
            case "STORE":
                self._stored(seen, host)
            case "ASIDE":
                self._put_aside(seen, host)
            case "PURGE":
                self._purged(seen, host)

    def _note(self, verb: str, host: str, stream: str, consumer: str, sequence: int, **more: object) -> None:
        event = self._event(stream, sequence)
        self._ledger.acts.append(Act(self._now(), verb, host, event, self._subscription(consumer), sequence, **more))

    def _settled(self, seen: Seen, host: str) -> None:
        _, _, stream, consumer, _, sequence, *_ = seen.subject.split(".")
        seconds = 0.0
        if seen.verb == "NAK" and len(seen.data) > 5:
            seconds = json.loads(seen.data[5:])["delay"] / _SECOND
        self._note(seen.verb, host, stream, consumer, int(sequence), seconds=seconds)

    def _delivered(self, seen: Seen, host: str) -> None:
        _, _, stream, consumer, delivered, sequence, *_ = seen.reply.split(".")
        self._note("DELIVERY", host, stream, consumer, int(sequence), delivered=int(delivered))

    def _stored(self, seen: Seen, host: str) -> None:
        stream = next((one for one in self._model.streams.values() if one.captures(seen.subject)), None)
        id = blocks.value(seen.headers, "ce-id")
        if stream is None or not stream.kept.last:
            return
        sequence = stream.kept.last
        known = self._ledger.stored.setdefault(id, [])
        # A repeat that the server has recognized stores nothing.
        if self._event(stream.name, sequence) != id or sequence in [number for _, number in known]:
            return
        known.append((self._now(), sequence))
        self._ledger.acts.append(Act(self._now(), "STORE", host, id, "", sequence))

    def _put_aside(self, seen: Seen, host: str) -> None:
        kind, consumer, sequence, which = _place(seen.subject)
        if not sequence or (which not in ("", "stuck") and kind == STAGE):
            return
        holder = next((one for one in self._model.streams.values() if one.captures(seen.subject)), None)
        kept = holder.kept.of(seen.subject) if holder is not None else ()
        if holder is None or not kept or holder.messages[kept[-1]].data != seen.data:
            return  # It was refused.
        stream = holder.name.removesuffix("_aside")
        if kind == PARKED:
            self._note("ASIDE", host, stream, consumer, sequence, parked=True)
            return
        if which == "stuck":
            self._note("ASIDE", host, stream, consumer, sequence, stuck=True)
            return
        record = stage_record.from_json(seen.data)
        if record is not None:
            more = {"attempts": tuple(record.attempts), "stage": str(record.stage), "stuck": record.stuck}
            due = None if record.due is None else record.due - self._epoch
            self._note("ASIDE", host, stream, consumer, sequence, seconds=record.wait or 0.0, due=due, **more)

    def _purged(self, seen: Seen, host: str) -> None:
        subject = json.loads(seen.data or b"{}").get("filter", "")
        kind, consumer, sequence, _ = _place(subject)
        if kind == STAGE and sequence:
            self._note("PURGE", host, self._stream_of(subject), consumer, sequence)

    def _event(self, stream: str, sequence: int) -> str:
        """The id of an event; empty where it is gone."""
        found = self._model.streams.get(stream)
        message = found.messages.get(sequence) if found is not None else None
        return blocks.value(message.headers, "ce-id") if message is not None else ""

    def _stream_of(self, subject: str) -> str:
        """The channel's stream to which something in the aside stream belongs."""
        found = next((name for name, one in self._model.streams.items() if one.captures(subject)), "")
        return found.removesuffix("_aside")

    # At the end.

    def take_stock(self) -> None:
        """Note what the server holds now."""
        for stream in self._model.streams.values():
            for consumer in stream.consumers.values():
                name = self._subscription(consumer.name)
                waiting = stream.kept.last - consumer.next_sequence + 1
                unsettled = [*consumer.pending, *range(consumer.next_sequence, consumer.next_sequence + waiting)]
                self._ledger.left += [
                    (name, self._event(stream.name, one)) for one in unsettled if one in stream.messages
                ]
                self._ledger.pulls += [name] * consumer.waiting
            for message in stream.messages.values():
                if ASIDE in message.subject:
                    self._left_aside(message)

    def _left_aside(self, message: Stored) -> None:
        kind, consumer, sequence, which = _place(message.subject)
        name = self._subscription(consumer)
        if kind == PARKED:
            self._ledger.parked.append(self._copy(name, sequence, message))
        elif which == "total" and ".sunk." in message.subject:
            found = sunk.from_json(message.data)
            self._ledger.sunk[name] = found.events if found is not None else 0
        elif sequence:
            self._ledger.records.append((name, sequence, which or STAGE))

    def _copy(self, name: str, sequence: int, message: Stored) -> ParkedCopy:
        def value(header: str) -> str:
            return blocks.value(message.headers, header)

        event = self._plan.event(value("ce-id"))
        status = value(STATUS)
        return ParkedCopy(
            value("ce-id"),
            name,
            sequence,
            int(value(ATTEMPTS) or 0),
            value(REASON),
            int(status) if status else None,
            value(DESTINATION),
            intact=event is not None
            and message.data == content.body(event.id, event.size)
            and value(ORIGIN_SEQUENCE) == str(sequence)
            and self._subscription(value(CONSUMER)) == name,
        )


def _place(subject: str) -> tuple[str, str, int, str]:
    """What lies at a subject of an aside stream: kind, consumer, sequence (0: none), and what stands behind it."""
    _, found, rest = subject.partition(ASIDE)
    words = rest.split(".")
    if not found or len(words) < 3:
        return "", "", 0, ""
    kind, consumer, number, *more = words
    if not number.isdigit():
        return kind, consumer, 0, more[0] if more else number
    return kind, consumer, int(number), more[0] if more and kind == STAGE else ""

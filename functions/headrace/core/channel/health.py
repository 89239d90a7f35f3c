"""The troubles of a channel that is as wanted, as conditions: full windows, no room aside, stuck and lost events.

All but one leave the channel ready, since it takes events and delivers those that it can; the exception is that no
event fits. Pure: reads the server's words about its streams and consumers. Called by `headrace.reconcile.in_nats`;
`headrace.core.channel.status` tells the conditions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.core.channel.counts import MOST_PARKED, Backlog
from headrace.core.conditions import Condition
from headrace.core.delivery.subscriber import Subscriber
from headrace.core.nats import payload
from headrace.core.plural import counted

DISCARDED = "NoEventsDiscarded"
STREAM_ROOM = "StreamHasRoom"
UNSEEN = "EventsSeen"
AHEAD = "PositionsKept"
MOST_SUBJECTS = 10_000
"""A stream with more subjects than this is not asked for their names."""
# A stage record with the headers around it needs more room than this.
LEAST_ROOM = 1024
# A message names so many sequences.
NAMED = 5


@dataclass(frozen=True, slots=True)
class Noted:
    """The facts about its consumers in the subjects of an aside stream; no message has to be read.

    Attributes:
        records: sequences of events that wait for another attempt.
        stuck: sequences of events that can be neither delivered nor parked.
        counted: consumers whose discarded events are counted.
        troubled: consumers whose pulls have brought nothing.
        forgotten: sequences of events that were found to wait for a retry that never comes.
        sunk: consumers of which events went to a dead letter sink.
        ahead: consumers that were found to stand ahead of the stream.
    """

    records: Mapping[str, tuple[int, ...]]
    stuck: Mapping[str, tuple[int, ...]]
    counted: tuple[str, ...] = ()
    troubled: tuple[str, ...] = ()
    forgotten: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    sunk: tuple[str, ...] = ()
    ahead: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AckWindow:
    """The ack window of one consumer.

    Attributes:
        out: events that are delivered and not settled.
        most: how many there may be (`max_ack_pending`); 0 or less for any number.
    """

    out: int
    most: int

    @property
    def full(self) -> bool:
        return 0 < self.most <= self.out


@dataclass(frozen=True, slots=True)
class Health:
    """The server's facts about one channel.

    Attributes:
        aside: STREAM.INFO of the aside stream.
        windows, stuck, discarded: by consumer.
        waiting: does any event wait for a retry?
        counts: the backlog of each subscriber, by consumer.
        created: when the stream was created, in the server's own form.
        forgotten: sequences of events whose retry NATS will never make, and that are not parked yet, by consumer.
        unseen: events of an adopted stream that no subscriber gets, by subject.
        pulls: why the pulls of a consumer bring nothing now, in the server's words.
        ahead: by how many events a consumer stands ahead of the end of the stream.
        stream: STREAM.INFO of the channel's stream.
        no_room: why the server or the account has no room for any message, in its words.
        max_payload: bytes that the server takes in one message; 0 when unknown.
    """

    aside: Mapping[str, Any]
    windows: Mapping[str, AckWindow]
    stuck: Mapping[str, tuple[int, ...]]
    discarded: Mapping[str, int]
    waiting: bool = False
    counts: Mapping[str, Backlog] = field(default_factory=dict)
    created: str = ""
    forgotten: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    unseen: Mapping[str, int] = field(default_factory=dict)
    pulls: Mapping[str, str] = field(default_factory=dict)
    ahead: Mapping[str, int] = field(default_factory=dict)
    stream: Mapping[str, Any] = field(default_factory=dict)
    no_room: str = ""
    max_payload: int = 0


def noted(subjects: Iterable[str]) -> Noted:
    """Read the subjects below `….stage.`: `<consumer>.<sequence>[.stuck|.forgotten]`, `<consumer>.discarded.total`,
    `<consumer>.pulls.trouble`, `<consumer>.position.ahead` and `<consumer>.sunk.total`.
    """
    records: dict[str, list[int]] = {}
    stuck: dict[str, list[int]] = {}
    forgotten: dict[str, list[int]] = {}
    counted, troubled, sunk, ahead = [], [], [], []
    for subject in subjects:
        match subject.partition("._knative_aside.stage.")[2].split("."):
            case [consumer, "discarded", "total"]:
                counted.append(consumer)
            case [consumer, "pulls", "trouble"]:
                troubled.append(consumer)
            case [consumer, "position", "ahead"]:
                ahead.append(consumer)
            case [consumer, "sunk", "total"]:
                sunk.append(consumer)
            case [consumer, sequence, "stuck"] if sequence.isdecimal():
                stuck.setdefault(consumer, []).append(int(sequence))
            case [consumer, sequence, "forgotten"] if sequence.isdecimal():
                forgotten.setdefault(consumer, []).append(int(sequence))
            case [consumer, sequence] if sequence.isdecimal():
                records.setdefault(consumer, []).append(int(sequence))
    lists = tuple(sorted(counted)), tuple(sorted(troubled))
    last = tuple(sorted(sunk)), tuple(sorted(ahead))
    return Noted(_sorted(records), _sorted(stuck), *lists, _sorted(forgotten), *last)


def gone(noted: Noted, stream: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The sequences of events that the server discarded while they waited for a retry, by consumer.

    Their stage records outlive them, and so tell of them.

    Args:
        stream: STREAM.INFO of the channel's stream.
    """
    first = int(stream["state"]["first_seq"])
    waited = {
        consumer: sorted({*noted.records.get(consumer, ()), *noted.stuck.get(consumer, ())})
        for consumer in noted.records.keys() | noted.stuck.keys()
    }
    lost = {consumer: tuple(one for one in each if one < first) for consumer, each in waited.items()}
    return {consumer: each for consumer, each in lost.items() if each}


def without(noted: Noted, gone: Mapping[str, tuple[int, ...]]) -> Noted:
    """The same without the records of events that are gone."""
    kept = {
        consumer: tuple(one for one in each if one not in gone.get(consumer, ()))
        for consumer, each in noted.records.items()
    }
    return replace(noted, records=kept)


def parked(aside: Mapping[str, Any]) -> int:
    """How many events are parked: all messages in the aside stream that are not below `….stage.`.

    Args:
        aside: STREAM.INFO with the subjects below `….stage.`, each of which holds one message.
    """
    state = aside["state"]
    return max(0, int(state["messages"]) - len(state.get("subjects") or ()))


def countable(events: int) -> bool:
    """Whether so many parked events are few enough for a list of their subjects, and so for counts by subscriber."""
    return 0 < events <= MOST_PARKED


def window(info: Mapping[str, Any]) -> AckWindow:
    """The ack window in one item of CONSUMER.LIST."""
    return AckWindow(int(info.get("num_ack_pending", 0)), int(info["config"].get("max_ack_pending", 0)))


def conditions(health: Health, subscribers: Mapping[str, Subscriber]) -> tuple[Condition, ...]:
    """Conditions, whether they hold or not; of severity Info, unless no event fits at all.

    Args:
        subscribers: by consumer.
    """
    return (
        _windows(health, subscribers),
        _room(health.aside),
        _stream_room(health),
        _fit(health.max_payload),
        _stuck(health, subscribers),
        _discarded(health, subscribers),
        _pulls(health, subscribers),
        _forgotten(health, subscribers),
        *_unseen(health),
        *_ahead(health, subscribers),
    )


def _windows(health: Health, subscribers: Mapping[str, Subscriber]) -> Condition:
    full = [
        f"{_name(consumer, subscribers)} has {window.out} of at most {counted(window.most, 'event')} delivered and not "
        "settled"
        for consumer, window in sorted(health.windows.items())
        if window.full
    ]
    advice = (
        "new events wait until some of these are settled: mend the subscriber, shorten its back-off, "
        "or raise maxAckPending"
    )
    return _informs("AckWindowsOpen", "AckWindowFull", full, advice)


def filled(info: Mapping[str, Any]) -> list[str]:
    """The limits by which a stream is full, in words; none where it has room.

    Args:
        info: STREAM.INFO.
    """
    name, state, config = info["config"]["name"], info["state"], info["config"]
    most, most_bytes = int(config.get("max_msgs", -1)), int(config.get("max_bytes", -1))
    full = []
    if 0 < most <= int(state["messages"]):
        full.append(f"{name} holds {counted(state['messages'], 'message')}, of {most} that may be")
    if most_bytes > 0 and int(state["bytes"]) + LEAST_ROOM > most_bytes:
        full.append(f"{name} holds {state['bytes']} bytes, of {most_bytes} that may be")
    return full


def _stream_room(health: Health) -> Condition:
    if health.no_room:
        told = f"NATS has no room for any message: {health.no_room}"
        advice = "events are refused (507): make room, or raise max_file_store of the servers or the account's limit"
        return _informs(STREAM_ROOM, "StoreFull", [told], advice)
    # Another policy makes room by discarding, which has a condition of its own.
    refuses = bool(health.stream) and health.stream["config"].get("discard") == "new"
    advice = "it refuses events (507): raise the limit, or mend the subscriber that events wait for"
    return _informs(STREAM_ROOM, "StreamFull", filled(health.stream) if refuses else [], advice)


def _fit(max_payload: int) -> Condition:
    problem = payload.problem(max_payload) if max_payload else ""
    return (
        Condition("EventsFit", False, "NoEventFits", f"{problem}; {payload.DO}")
        if problem
        else Condition("EventsFit", True)
    )


def _room(aside: Mapping[str, Any]) -> Condition:
    full = filled(aside)
    advice = (
        "what can't be delivered stays in the channel's stream: replay or discard parked events, or raise the limit"
    )
    return _informs("AsideStreamHasRoom", "AsideStreamFull", full, advice)


def _stuck(health: Health, subscribers: Mapping[str, Subscriber]) -> Condition:
    stuck = [
        f"{_name(consumer, subscribers)}: {len(each)} ({_sequences(each)})"
        for consumer, each in sorted(health.stuck.items())
    ]
    advice = (
        "these events can be neither delivered nor parked, and are tried again at the longest back-off; why is in the "
        "log of forward: is max_payload lower than it was, or the aside stream full?"
    )
    return _informs("NoEventsStuck", "EventsStuck", stuck, advice)


def _forgotten(health: Health, subscribers: Mapping[str, Subscriber]) -> Condition:
    found = [
        f"{_name(consumer, subscribers)}: {len(each)} ({_sequences(each)})"
        for consumer, each in sorted(health.forgotten.items())
    ]
    advice = (
        "these events wait for a retry that NATS will never make, since their consumer does not hold them: was "
        "max_deliver set on it by hand? They are parked within a minute, if there is room; replay them then"
    )
    return _informs("RetriesHeld", "RetriesForgotten", found, advice)


def _discarded(health: Health, subscribers: Mapping[str, Subscriber]) -> Condition:
    lost = [
        f"{_name(consumer, subscribers)}: {events}" for consumer, events in sorted(health.discarded.items()) if events
    ]
    advice = "the server has discarded these events before they were delivered: look at the stream's limits"
    return _informs(DISCARDED, "EventsDiscarded", lost, advice)


def _pulls(health: Health, subscribers: Mapping[str, Subscriber]) -> Condition:
    vain = [f"{_name(consumer, subscribers)}: {words}" for consumer, words in sorted(health.pulls.items())]
    advice = "forward asks NATS for the events of these subscribers, and gets none: look at the consumer and its limits"
    return _informs("PullsServed", "PullsBringNothing", vain, advice)


def _unseen(health: Health) -> tuple[Condition, ...]:
    """A condition of adopted streams alone, while they hold events that are not delivered."""
    if not health.unseen:
        return ()
    events, named = sum(health.unseen.values()), sorted(health.unseen)[:NAMED]
    told = ", ".join(f"{subject} ({health.unseen[subject]})" for subject in named)
    more = ", …" if len(health.unseen) > NAMED else ""
    finding = f"the stream holds {counted(events, 'event')} on subjects that no subscriber is given: {told}{more}"
    advice = (
        "name those that are to be delivered in spec.stream.config.additionalSubjects, by which new ones are; those "
        "that lie there then come with `kn jetstream subscription reset`"
    )
    return (_informs(UNSEEN, "OtherSubjects", [finding], advice),)


def _ahead(health: Health, subscribers: Mapping[str, Subscriber]) -> tuple[Condition, ...]:
    """A condition that is there only while it does not hold."""
    if not health.ahead:
        return ()
    found = [
        f"the next {counted(events, 'event')} will not be handed to {_name(consumer, subscribers)}"
        if events
        else f"events may have passed {_name(consumer, subscribers)} by"
        for consumer, events in sorted(health.ahead.items())
    ]
    advice = (
        "its consumer remembers more than the stream holds, since NATS lost power without sync_interval: always; it is "
        "put back within a minute by NATS 2.14 and later, else by `kn jetstream subscription reset` with --to-time and "
        "the time of that loss"
    )
    return (_informs(AHEAD, "PositionAhead", found, advice),)


def _informs(kind: str, reason: str, findings: list[str], advice: str) -> Condition:
    if not findings:
        return Condition(kind, True)
    return Condition(kind, False, reason, f"{'; '.join(findings)}; {advice}", informative=True)


def _name(consumer: str, subscribers: Mapping[str, Subscriber]) -> str:
    known = subscribers.get(consumer)
    return known.full_name if known is not None else consumer


def _sequences(each: tuple[int, ...]) -> str:
    more = ", …" if len(each) > NAMED else ""
    return f"sequence {', '.join(map(str, each[:NAMED]))}{more}"


def _sorted(found: Mapping[str, list[int]]) -> dict[str, tuple[int, ...]]:
    return {consumer: tuple(sorted(each)) for consumer, each in found.items()}

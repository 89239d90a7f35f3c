"""What to change in NATS, so that a channel's streams are as wanted: observed against wanted gives actions.

Knows who may touch what (`headrace.core.nats.stream`) and the order in which things are to be made. Does nothing
itself: `headrace.io.jetstream.admin` carries the actions out. The consumers' half is `headrace.core.channel.binding`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from headrace.core import subject_pattern
from headrace.core.channel import aside_bound
from headrace.core.channel.stream_config import WantedStreams
from headrace.core.nats.action import (
    Action,
    CreateStream,
    DeleteStream,
    Done,
    Outcome,
    PurgeSubjects,
    Rejected,
    UpdateStream,
)
from headrace.core.nats.stream import (
    ADDED_SUBJECT_KEY,
    CREATED_KEY,
    PEER,
    PREFIX,
    ChannelStream,
    Ownership,
    Role,
    added_subject,
    captures,
    created_by_us,
    foreign_owner,
    standing,
    uid_of,
)
from headrace.core.raw_config import Config, differs, merged

# Settings that NATS can't change on a stream that exists, by the manifest's name and its own.
_FIXED = {"storage": "storage", "persistMode": "persist_mode", "firstSeq": "first_seq", "mirror": "mirror"}
_WORK = "workqueue"
# The author's remedies, by the server's words.
_FIELDS = {
    aside_bound.DEMANDED: "set spec.stream.config.maxBytes",
    "max bytes exceeds": "lower spec.stream.config.maxBytes",
    "insufficient storage resources": "lower spec.stream.config.maxBytes, which is reserved, or raise the limit",
    "uplicate window": "mend spec.stream.config.duplicateWindow",
    "uplicates window": "mend spec.stream.config.duplicateWindow",
    "max age": "mend spec.stream.config.maxAge",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """Why the streams are not as wanted; `reason` is the condition's."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Observed:
    """The configurations of the two streams as the server has them; None for a stream that is not there."""

    stream: Config | None
    aside: Config | None


@dataclass(frozen=True, slots=True)
class StreamsDone:
    """How far the actions on the streams got.

    Attributes:
        observed: the server's present configurations.
        problems: refused updates, which leave a stream that works; or the one that stopped everything.
        stopped: the streams that consumers need are not there.
    """

    place: ChannelStream
    observed: Observed
    problems: tuple[Problem, ...] = ()
    stopped: bool = False

    def after(self, action: Action, outcome: Outcome) -> StreamsDone:
        """The progress after one more action."""
        match action, outcome:
            case UpdateStream(config), Rejected(words):
                told = f"NATS refused to update {config['name']}: {words}{self._field(config, words)}"
                return self._with(Problem("StreamUpdateRefused", told))
            case CreateStream(config), Rejected(words):
                told = f"NATS refused to create {config['name']}: {words}{self._field(config, words)}"
                problem = Problem("StreamCreateRefused", told)
                return replace(self._with(problem), stopped=True)
            case _, Rejected(words):
                return replace(self._with(Problem("StreamUpdateRefused", f"NATS refused: {words}")), stopped=True)
            case ((CreateStream(asked) | UpdateStream(asked)), Done(got)):
                if not _kept_marks(asked, got):
                    problem = Problem("NatsTooOld", "NATS dropped the metadata of a stream: it should be 2.10 or later")
                    return replace(self, problems=(problem,), stopped=True)
                key = "aside" if asked["name"] == self.place.aside else "stream"
                return replace(self, observed=replace(self.observed, **{key: got}))
        return self

    def _field(self, config: Config, words: str) -> str:
        """The advice for a refusal, where the server's words tell the field of the manifest."""
        if config["name"] == self.place.aside and aside_bound.DEMANDED in words:
            # Others made the stream itself, or it is older than the account's demand.
            set_it = f"set spec.stream.config.maxBytes, or max_bytes of {self.place.stream} where that is adopted"
            return f": {set_it}: this one gets a share of it"
        for said, advice in _FIELDS.items():
            if said in words:
                return f": {advice}"
        return ""

    def _with(self, problem: Problem) -> StreamsDone:
        return replace(self, problems=(*self.problems, problem))


def streams(wanted: WantedStreams, observed: Observed) -> tuple[Action, ...] | Problem:
    """The actions that make the streams as wanted, in order; none when they are.

    Each may fail on its own; without a stream, or its aside, the consumers can't be made.
    """
    stands = standing(wanted.place, Role.CHANNEL, observed.stream)
    conflict = _conflict(wanted.place, observed)
    if conflict is not None:
        return conflict
    if stands is Ownership.ADOPTED and observed.stream is not None:
        if lost := _moved_away(observed.stream, wanted.config["subjects"]):
            return lost
        return tuple(_adopt(wanted, observed.stream, observed.aside))
    # A new stream begins its sequences anew: records of an earlier one would be read as its own.
    stale = observed.aside is not None and observed.stream is None
    purge = [PurgeSubjects(wanted.place.aside, wanted.place.stages)] if stale else []
    aside = aside_bound.following(wanted.aside, observed.aside, int(wanted.config["max_bytes"]))
    return (*purge, *_own(wanted, observed.stream, stands), *_aside(observed.aside, aside))


def add_sealed(progress: StreamsDone) -> StreamsDone:
    """The progress with the problems that no action can mend: a sealed stream."""
    stream = progress.observed.stream
    if stream is None or not stream.get("sealed"):
        return progress
    words = f"stream {progress.place.stream} is sealed: it takes no event any more; what it holds is delivered"
    problem = Problem("StreamSealed", f"{words}. Delete it, or make another channel")
    return replace(progress, problems=(*progress.problems, problem))


def seen_subjects(place: ChannelStream, observed: Observed, additional: tuple[str, ...]) -> tuple[str, ...]:
    """The subjects of the stream that the consumers are to see, as they lie there; empty for all of them.

    An adopted stream holds others' messages, too, and may store events under other subjects.
    """
    if not adopted(place, observed):
        return ()
    transform = (observed.stream or {}).get("subject_transform")
    found = (subject_pattern.stored(one, transform) for one in (place.channel.subject, *additional))
    return tuple(one for one in found if one is not None)


def adopted(place: ChannelStream, observed: Observed) -> bool:
    """Is the channel's stream somebody else's?"""
    return standing(place, Role.CHANNEL, observed.stream) is Ownership.ADOPTED


def removal(place: ChannelStream, observed: Observed, *, retain: bool, parked: int) -> tuple[Action, ...]:
    """The actions that delete the streams with their channel, once its consumers are gone.

    Args:
        retain: the author wants to keep both streams.
        parked: events in the aside stream that nobody has handled; they outlive the channel.
    """
    if retain or not may_remove(place, observed):
        return ()
    actions: list[Action] = []
    stands = standing(place, Role.CHANNEL, observed.stream)
    if observed.stream is not None and stands is Ownership.ADOPTED:
        actions.extend(_leave(observed.stream, observed.aside))
    if observed.stream is not None and stands is Ownership.OURS and created_by_us(observed.stream):
        actions.append(DeleteStream(place.stream))
    if observed.aside is not None and parked == 0:
        actions.append(DeleteStream(place.aside))
    return tuple(actions)


def may_remove(place: ChannelStream, observed: Observed) -> bool:
    """Whether streams and consumers belong to this very channel.

    A finalizer may run late: if a channel of the same name (another uid) has taken over in the meantime, its streams
    are not ours to delete.
    """
    if _conflict(place, observed) is not None:
        return False
    uids = {uid_of(config) for config in (observed.stream, observed.aside) if config is not None}
    return not place.owner.uid or uids <= {"", place.owner.uid}


def _conflict(place: ChannelStream, observed: Observed) -> Problem | None:
    pairs = ((Role.CHANNEL, place.stream, observed.stream), (Role.ASIDE, place.aside, observed.aside))
    for role, name, config in pairs:
        if config is not None and standing(place, role, config) is Ownership.FOREIGN:
            advice = "give this channel another name or another spec.stream.overrideName, or delete that stream"
            return Problem("StreamNotOurs", f"stream {name} exists and {foreign_owner(config)}: {advice}")
    return None


def _moved_away(stream: Config, subjects: Iterable[str]) -> Problem | None:
    """Why no consumer could see the channel's events; None where one can."""
    transform = stream.get("subject_transform") or {}
    for subject in subjects:
        if subject_pattern.stored(subject, transform) is None:
            by = f"its subject_transform from {transform.get('src') or '>'!r} to {transform['dest']!r}"
            problem = f"stream {stream['name']} stores {subject} where no filter of a consumer can follow, by {by}"
            advice = "let the transform move whole tokens of all that it matches, or name another stream"
            return Problem("SubjectMovedAway", f"{problem}: {advice}")
    return None


def _own(wanted: WantedStreams, observed: Config | None, stands: Ownership) -> Iterator[Action]:
    if observed is None:
        yield CreateStream(wanted.config)
        return
    if observed.get("sealed"):
        # A sealed stream can't be changed any more; `add_sealed` reports it.
        return
    mark: dict[str, Any] = dict(wanted.config["metadata"])
    if stands is Ownership.PEERS:
        mark[CREATED_KEY] = PEER
    # The mark goes first, alone: even if the server refuses the rest, the stream then has an owner.
    marked = merged(observed, {"metadata": mark})
    if differs(observed, {"metadata": mark}):
        yield UpdateStream(marked)
    config = _possible(wanted, observed)
    if differs(marked, config):
        yield UpdateStream(merged(marked, config))


def _possible(wanted: WantedStreams, observed: Config) -> Config:
    """The wanted configuration without defaults that NATS can't apply to a stream that exists.

    A default that was added later holds for new streams; it must not put an old one out of order.
    """
    fixed = dict(_FIXED)
    if _WORK in (observed.get("retention"), wanted.config["retention"]):
        fixed["retention"] = "retention"
    late = {key for member, key in fixed.items() if member in wanted.unsaid}
    return {key: value for key, value in wanted.config.items() if key not in late}


def _aside(observed: Config | None, wanted: Config) -> Iterator[Action]:
    if observed is None:
        yield CreateStream(wanted)
    elif differs(observed, wanted):
        yield UpdateStream(merged(observed, wanted))


def _adopt(wanted: WantedStreams, stream: Config, aside: Config | None) -> Iterator[Action]:
    """Make the aside stream, which is ours, and add our subject; all else of an adopted stream belongs to its maker."""
    subject = wanted.place.channel.subject
    missing = not captures(stream, subject) and not stream.get("mirror")
    changes: dict[str, Any] = {"num_replicas": wanted.replicas or stream.get("num_replicas") or 1}
    if missing:
        # Remembered before it is done, so that a crash in between leaves no subject that nobody knows of.
        changes["metadata"] = {ADDED_SUBJECT_KEY: subject}
    bounded = aside_bound.following(wanted.aside, aside, int(stream.get("max_bytes") or 0))
    yield from _aside(aside, merged(bounded, changes))
    if missing:
        yield UpdateStream({**stream, "subjects": [*(stream.get("subjects") or ()), subject]})


def _leave(stream: Config, aside: Config | None) -> Iterator[Action]:
    subject, subjects = added_subject(aside), stream.get("subjects") or []
    others = [other for other in subjects if other != subject]
    # A stream without subjects would listen on its own name.
    if subject in subjects and others:
        yield UpdateStream({**stream, "subjects": others})


def _kept_marks(asked: Config, got: Config) -> bool:
    marks = {key: value for key, value in (asked.get("metadata") or {}).items() if key.startswith(PREFIX)}
    return not differs(got, {"metadata": marks})

"""Which settings of a stream exclude each other, and which can't be changed.

Each is a rule of the server (tried on NATS 2.15) or a promise of the channel, told before NATS is asked. Knows the
names of the fields only; used by `headrace.core.manifest.stream_spec`, which has them.
"""

from __future__ import annotations

from datetime import timedelta

from headrace.core.manifest.field_types import GO
from headrace.core.manifest.part import Fixed, Rule

# An empty name is no mirror: the proposal's page of fields has it so.
MIRRORS = "(has(self.mirror) && self.mirror.name != '')"
# An entry whose texts are all empty counts as absent.
HOLLOW_ORIGIN = " && ".join(
    [
        *(f"(!has(self.{name}) || size(self.{name}) == 0)" for name in ("optStartTime", "filterSubject")),
        "(!has(self.optStartSeq) || self.optStartSeq == '')",
        "!has(self.external)",
        "(!has(self.subjectTransforms) || size(self.subjectTransforms) == 0)",
    ]
)
LEAST_SPAN = timedelta(milliseconds=100)


def _span(name: str) -> str:
    """A duration; none when it is not given, or when its own rule refuses it."""
    given = f"has(self.{name}) && self.{name} != '' && self.{name}.matches('^({GO})$')"
    return f"({given} ? duration(self.{name}) : duration('0s'))"


def _set(name: str, part: str = "self") -> str:
    return f"(has({part}.{name}) && {part}.{name})"


def _either(name: str, default: str, part: str = "self") -> str:
    """The value of an enum, with the default for an empty one."""
    return f"({part}.{name} == '' ? '{default}' : {part}.{name})"


def _without_mirror(name: str, cel: str, holds: str, says: str) -> Rule:
    return Rule(name, f"!{MIRRORS} || !({cel})", lambda own: own.mirror is None or not getattr(own, holds), says)


def _stays(name: str, says: str) -> Fixed:
    return Fixed(name, f"!{_set(name, 'oldSelf')} || {_set(name)}", says)


def _at_least(name: str, attribute: str) -> Rule:
    span = _span(name)
    return Rule(
        name,
        f"{span} == duration('0s') || {span} >= duration('100ms')",
        lambda own: not getattr(own, attribute) or getattr(own, attribute) >= LEAST_SPAN,
        "NATS has no shorter one: make it 100ms or more, or take it out",
    )


RULES: tuple[Rule, ...] = (
    Rule(
        "noAck",
        f"!{_set('noAck')}",
        lambda own: not own.no_ack,
        "a stream without publish acks can't tell that an event is stored: take the setting out",
    ),
    Rule("sealed", f"!{_set('sealed')}", lambda own: not own.sealed, "a sealed stream takes no events: take it out"),
    Rule(
        "subjectDeleteMarkerTTL",
        "!has(self.subjectDeleteMarkerTTL) || self.subjectDeleteMarkerTTL == ''",
        lambda own: own.subject_delete_marker_ttl is None,
        "the server's markers would be delivered as if they were events: take it out",
    ),
    _without_mirror(
        "additionalSubjects",
        "has(self.additionalSubjects) && size(self.additionalSubjects) > 0",
        "additional_subjects",
        "a mirror listens on no subjects: take them, or mirror, out",
    ),
    _without_mirror(
        "sources",
        "has(self.sources) && size(self.sources) > 0",
        "sources",
        "a mirror has one origin: take sources, or mirror, out",
    ),
    _without_mirror(
        "firstSeq",
        "has(self.firstSeq) && !string(self.firstSeq).matches('^0*$')",
        "first_seq",
        "a mirror has the sequences of its origin: take firstSeq, or mirror, out",
    ),
    _without_mirror(
        "allowAtomic",
        _set("allowAtomic"),
        "allow_atomic",
        "nobody publishes to a mirror: take allowAtomic, or mirror, out",
    ),
    _without_mirror(
        "allowMsgSchedules",
        _set("allowMsgSchedules"),
        "allow_msg_schedules",
        "nobody publishes to a mirror: take allowMsgSchedules, or mirror, out",
    ),
    Rule(
        "mirrorDirect",
        f"!{_set('mirrorDirect')} || {MIRRORS}",
        lambda own: not own.mirror_direct or own.mirror is not None,
        "only a mirror can answer for another stream: name it in mirror, or take mirrorDirect out",
    ),
    _at_least("maxAge", "max_age"),
    _at_least("duplicateWindow", "duplicate_window"),
    Rule(
        "duplicateWindow",
        f"{_span('maxAge')} == duration('0s') || {_span('duplicateWindow')} <= {_span('maxAge')}",
        lambda own: not own.max_age or own.duplicate_window <= own.max_age,
        "it can't be longer than maxAge: shorten it, or take it out",
    ),
    Rule(
        "discardNewPerSubject",
        f"!{_set('discardNewPerSubject')}"
        " || (self.discard == 'New' && has(self.maxMsgsPerSubject) && self.maxMsgsPerSubject > 0)",
        lambda own: not own.discard_new_per_subject or (own.discard == "New" and own.max_msgs_per_subject > 0),
        "it needs discard New and a maxMsgsPerSubject: give both, or take it out",
    ),
    Rule(
        "allowRollup",
        f"!{_set('allowRollup')} || !{_set('denyPurge')}",
        lambda own: not (own.allow_rollup and own.deny_purge),
        "a rollup purges, which denyPurge forbids: take one of the two out",
    ),
    Rule(
        "persistMode",
        "self.persistMode != 'Async' || self.storage != 'Memory'",
        lambda own: own.persist_mode != "Async" or own.storage == "File",
        "only storage File has an Async mode: take persistMode out, or make storage File",
    ),
    Rule(
        "persistMode",
        f"self.persistMode != 'Async' || !{_set('allowAtomic')}",
        lambda own: own.persist_mode != "Async" or not own.allow_atomic,
        "Async excludes allowAtomic: take one of the two out",
    ),
)
FIXED: tuple[Fixed, ...] = (
    Fixed(
        "storage",
        f"{_either('storage', 'File')} == {_either('storage', 'File', 'oldSelf')}",
        "the storage of a stream can't be changed: put it back, or make a new channel",
    ),
    Fixed(
        "retention",
        "(self.retention == 'Work') == (oldSelf.retention == 'Work')",
        "NATS can't change retention to or from Work: put it back, or make a new channel",
    ),
    Fixed(
        "mirror",
        f"!{MIRRORS} || (has(oldSelf.mirror) && self.mirror == oldSelf.mirror)",
        "a stream can't be made a mirror, nor a mirror be changed: put it back, take it out, or make a new channel",
    ),
    Fixed(
        "persistMode",
        f"{_either('persistMode', 'Default')} == {_either('persistMode', 'Default', 'oldSelf')}",
        "the persist mode of a stream can't be changed: put it back, or make a new channel",
    ),
    _stays("denyDelete", "it can't be taken back: leave it true, or make a new channel"),
    _stays("denyPurge", "it can't be taken back: leave it true, or make a new channel"),
    _stays("allowMsgTTL", "it can't be taken back: leave it true, or make a new channel"),
    _stays("allowMsgSchedules", "it can't be taken back: leave it true, or make a new channel"),
)

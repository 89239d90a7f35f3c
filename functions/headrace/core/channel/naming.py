"""The names of subjects and streams in a channel's manifest, and what is done about those that are not its to use.

A refused name takes no running channel down: what it would change stays as it is in NATS, and all else is as wanted.
A name that the channel's stream has already is kept, since only `reconcile` writes there, and the Go channel did: a
channel from before the rule, or from before an edit of the administrator's list, goes on (ADR 050). Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from headrace.core import subject_pattern
from headrace.core.channel import peer, reach
from headrace.core.channel.own_consumer import owned
from headrace.core.channel.plan import Observed
from headrace.core.channel.reach import EVERYBODYS, Reach
from headrace.core.channel.stream_config import WantedStreams
from headrace.core.conditions import Condition
from headrace.core.installation import tenants
from headrace.core.installation.config_choice import DEFAULTS_NAME
from headrace.core.installation.tenants import Tenant
from headrace.core.manifest.consumer_spec import ConsumerTemplate
from headrace.core.manifest.manifest import Spec
from headrace.core.manifest.stream_spec import SourceStream
from headrace.core.nats.stream import ChannelStream, Ownership, Role, standing
from headrace.core.plural import counted
from headrace.core.quoting import bounded, quoted
from headrace.core.raw_config import Config, differs

TYPE, REFUSED = "NamesAllowed", "NameRefused"
_CONFIG = "spec.stream.config"
# What a name would change, beside keys of the stream's configuration.
_STREAM, _FILTERS = "stream", "filters"
_SEEN = (_FILTERS, "subjects")
_MADE = ("mirror", "sources", "republish", "subject_transform")
# Names that one message tells; each is a sentence.
_MOST = 3
# A message that is too long loses its middle, and a line without its middle opens nothing, or something else.
_LONGEST_LINE = 1000


@dataclass(frozen=True, slots=True)
class Trespass:
    """A name that a manifest has and its namespace may not use.

    Attributes:
        field: where it stands, as in `spec.stream.config.additionalSubjects[0]`.
        member: of the administrator's list, which would open it: `subjects` or `streams`; empty for none.
        why: whose it is.
        key: what it would change: a key of the stream's configuration, or one of those above.
        item: its part of the value there.
    """

    field: str
    value: str
    member: str
    why: str
    key: str
    item: Any


@dataclass(frozen=True, slots=True)
class Naming:
    """What is wanted in spite of them.

    Attributes:
        additional: the additional subjects that the consumers of an adopted stream are to see.
        template: the consumers', without refused filters.
        filters_stay: consumers that exist keep the filters that they have.
        refused: names without any effect.
        kept: names that the channel has had before.
        stopped: without a refused name there is no stream for the channel.
    """

    wanted: WantedStreams
    additional: tuple[str, ...]
    template: ConsumerTemplate
    filters_stay: bool = False
    refused: tuple[Trespass, ...] = ()
    kept: tuple[Trespass, ...] = ()
    stopped: bool = False

    def condition(self, system: str) -> Condition | None:
        """The condition that tells of them; None without any.

        Args:
            system: the namespace of the administrator's list.
        """
        told = self.refused or self.kept
        if not told:
            return None
        namespace, line = self.wanted.place.owner.namespace, _opening(told, self.wanted.place.owner.namespace)
        where = f"the key {tenants.KEY} of ConfigMap {DEFAULTS_NAME} in {system}"
        opened = dict.fromkeys(filter(None, (reach.opened(one.value, one.why) for one in told if one.member)))
        warning = f" (which lets every author there {', and '.join(opened)})" if opened else ""
        names = "; ".join(f"{one.field} is {quoted(one.value)}: {one.why}" for one in told[:_MOST])
        more = f"; and {counted(len(told) - _MOST, 'more name')}" if len(told) > _MOST else ""
        it, it_has, it_is = ("it", "it has", "It is") if len(told) == 1 else ("them", "they have", "They are")
        if self.refused:
            advice = f", or an administrator adds to {where}{warning}: {line}" if line else ""
            rule = f"Namespace {namespace} may not use {it}, so {it_has} no effect: take {it} out"
            message = f"{names}{more}. {rule}{advice}"
            return Condition(TYPE, False, REFUSED, bounded(message))
        advice = f" To allow it, an administrator adds to {where}{warning}: {line}" if line else ""
        message = f"{names}{more}. {it_is} kept, since the channel has had {it} before.{advice}"
        return Condition(TYPE, False, "NameKept", bounded(message), informative=True)


def trespasses(spec: Spec, wanted: WantedStreams, entries: tuple[Tenant, ...]) -> tuple[Trespass, ...]:
    """The names in a manifest that its namespace may not use.

    Args:
        entries: those of the administrator's list that are about the namespace.
    """
    ours, found = Reach(wanted.place, entries), []
    for one in _names(spec, wanted.config):
        why = ours.of_stream(one.value) if one.pattern is None else ours.of_subject(one.value, one.pattern)
        if one.value and why:
            member = "streams" if one.pattern is None else "" if one.pattern.startswith(EVERYBODYS) else "subjects"
            found.append(Trespass(one.field, one.value, member, why, one.key, one.item))
    return tuple(found)


def choose_events(found: Iterable[Trespass]) -> bool:
    """Does one of these names say which events of an adopted stream the consumers are to see?"""
    return any(one.key in _SEEN for one in found)


def judged(
    spec: Spec,
    wanted: WantedStreams,
    found: Iterable[Trespass],
    observed: Observed,
    consumers: Iterable[Mapping[str, Any]] = (),
) -> Naming:
    """What is wanted in spite of these names, beside the streams as they are.

    Args:
        consumers: CONSUMER.LIST of an adopted stream; needed only for names that `choose_events`.
    """
    place, template = wanted.place, spec.consumer_config_template
    stands = standing(place, Role.CHANNEL, observed.stream)
    adopted = stands is Ownership.ADOPTED
    # Of an adopted stream its maker decides, and such names say what the consumers see; of our own they see everything.
    idle = _MADE if adopted else (_FILTERS,)
    told = tuple(one for one in found if one.key not in idle)
    has = observed.stream if stands in (Ownership.OURS, Ownership.PEERS) else None
    sees = _seen(place, consumers) if adopted else ()
    transform = (observed.stream or {}).get("subject_transform")

    def is_kept(one: Trespass) -> bool:
        if one.key == _STREAM:
            return has is not None or _used(place, observed)
        if adopted:
            stored = one.value if one.key == _FILTERS else subject_pattern.stored(one.value, transform)
            return stored is not None and any(subject_pattern.covers(each, stored) for each in sees)
        return has is not None and _is_there(one, has)

    verdicts = [(one, is_kept(one)) for one in told]
    kept = tuple(one for one, stays in verdicts if stays)
    refused = tuple(one for one, stays in verdicts if not stays)
    barred = {one.value for one in refused if one.key in _SEEN}
    filters = tuple(one for one in template.subjects if one not in barred)
    return Naming(
        replace(wanted, config=_allowed(wanted, refused, kept, has)),
        tuple(one for one in spec.stream.config.additional_subjects if one not in barred),
        template.model_copy(update={"filter_subject": "", "filter_subjects": filters}) if barred else template,
        filters_stay=adopted and bool(barred),
        refused=refused,
        kept=kept,
        stopped=any(one.key == _STREAM or (one.key == "mirror" and has is None) for one in refused),
    )


class _Name(NamedTuple):
    """A name in a manifest; `pattern` matches the subjects that it can mean, and is None for a stream."""

    field: str
    value: str
    pattern: str | None
    key: str
    item: Any = None


def _names(spec: Spec, wanted: Config) -> Iterator[_Name]:
    """The names that reach beyond the stream itself. What only chooses among its own messages is none."""
    config, template = spec.stream.config, spec.consumer_config_template
    yield _Name("spec.stream.overrideName", spec.stream.override_name, None, _STREAM)
    for index, one in enumerate(config.additional_subjects):
        yield _Name(f"{_CONFIG}.additionalSubjects[{index}]", one, one, "subjects", one)
    if config.mirror:
        yield from _of_origin(f"{_CONFIG}.mirror", config.mirror, "mirror", wanted["mirror"])
    for index, origin in enumerate(config.sources):
        yield from _of_origin(f"{_CONFIG}.sources[{index}]", origin, "sources", wanted["sources"][index])
    for field, key, mapping in (
        ("republish", "republish", config.republish),
        ("subjectTransform", "subject_transform", config.subject_transform),
    ):
        if mapping:
            to = mapping.destination
            yield _Name(f"{_CONFIG}.{field}.destination", to, subject_pattern.results(to), key, wanted[key])
    yield _Name("spec.consumerConfigTemplate.filterSubject", template.filter_subject, template.filter_subject, _FILTERS)
    for index, one in enumerate(template.filter_subjects):
        yield _Name(f"spec.consumerConfigTemplate.filterSubjects[{index}]", one, one, _FILTERS)


def _of_origin(path: str, origin: SourceStream, key: str, item: Config) -> Iterator[_Name]:
    yield _Name(f"{path}.name", origin.name, None, key, item)
    for index, one in enumerate(origin.subject_transforms):
        field = f"{path}.subjectTransforms[{index}].destination"
        yield _Name(field, one.destination, subject_pattern.results(one.destination), key, item)
    if origin.external:
        prefixes = {"apiPrefix": origin.external.api_prefix, "deliverPrefix": origin.external.deliver_prefix}
        for name, prefix in prefixes.items():
            yield _Name(f"{path}.external.{name}", prefix, f"{prefix}.>", key, item)


def _used(place: ChannelStream, observed: Observed) -> bool:
    """Is the stream that the author names in use by this channel already?

    Its own subject stands there only if we have added it, or the Go channel has, or a person in NATS. A mark of an
    aside stream is ours.
    """
    if standing(place, Role.CHANNEL, observed.stream) is Ownership.FOREIGN:
        return False
    own = place.channel.subject in ((observed.stream or {}).get("subjects") or ())
    return own or standing(place, Role.ASIDE, observed.aside) is Ownership.OURS


def _seen(place: ChannelStream, consumers: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """The patterns that the channel's consumers see of its stream already, those of the Go channel included."""
    infos = list(consumers)
    configs = [info["config"] for info in infos if owned(info["config"], place.owner) is not None]
    configs += [each.config for each in peer.recognize(infos, place).values()]
    return tuple(one for config in configs for one in subject_pattern.filters(config))


def _is_there(one: Trespass, has: Config) -> bool:
    there = has.get(one.key)
    if isinstance(one.item, str):
        return one.item in (there or ())
    # Both ways: what the stream has beside it may be what narrows it.
    return any(
        not (differs(each, one.item) or differs(one.item, each))
        for each in (there if isinstance(there, list) else [there] if there else ())
    )


def _allowed(
    wanted: WantedStreams, refused: Iterable[Trespass], kept: Iterable[Trespass], has: Config | None
) -> dict[str, Any]:
    """The configuration without refused names: each key of theirs stays as it is, or is left out of a new stream."""
    config, keys = dict(wanted.config), {one.key for one in refused}
    if has is not None and any(one.key == "mirror" for one in kept):
        # It may not begin to answer for the stream that it mirrors.
        keys.add("mirror_direct")
    for key in keys & config.keys():
        if has is not None:
            config[key] = has.get(key)
        elif isinstance(config[key], list):
            items = [one.item for one in refused if one.key == key]
            config[key] = [one for one in config[key] if one not in items]
        else:
            config[key] = None
    if has is not None and keys & {"subjects", "mirror"}:
        there, own = list(has.get("subjects") or ()), wanted.place.channel.subject
        config["subjects"] = there if has.get("mirror") or own in there else [*there, own]
    return config


def _opening(told: Iterable[Trespass], namespace: str) -> str:
    """The line of the list that would open these names, as YAML, or a word about a long one; empty if none can."""
    members: dict[str, list[str]] = {}
    for one in told:
        if one.member:
            members.setdefault(one.member, []).append(one.value)
    lists = (f"{member}: {json.dumps(list(dict.fromkeys(values)))}" for member, values in members.items())
    line = f"- {{namespaces: {json.dumps([namespace])}, {', '.join(lists)}}}" if members else ""
    return line if len(line) <= _LONGEST_LINE else f"an entry for {namespace} with the words of the manifest"

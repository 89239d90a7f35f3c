"""Filters of events: by type, source, and any attribute, with `*` and `?` as in file names. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from headrace.core.errors import Misconfigured
from headrace.core.event.event import Event, is_name
from headrace.core.quoting import quoted


@dataclass(frozen=True, slots=True)
class EventFilter:
    """A filter on events; an empty one matches all.

    Attributes:
        types, sources: patterns; one of each must match, if there are any.
        attributes: name to pattern; all must match. An attribute that is missing matches the empty pattern only.
    """

    types: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def everything(self) -> bool:
        return not (self.types or self.sources or self.attributes)

    def matches(self, event: Event) -> bool:
        return (
            _any(self.types, event.type)
            and _any(self.sources, event.source)
            and all(fnmatchcase(event.attributes.get(name, ""), pattern) for name, pattern in self.attributes.items())
        )


def event_filter(types: Iterable[str], sources: Iterable[str], attributes: Iterable[str]) -> EventFilter:
    """The filter that the options describe; `attributes` are `name=pattern`.

    Raises:
        Misconfigured: the message names the option.
    """
    return EventFilter(tuple(types), tuple(sources), pairs(attributes, "--attribute"))


def pairs(given: Iterable[str], option: str) -> dict[str, str]:
    """`name=value` options, with names that an attribute can have.

    Raises:
        Misconfigured: the message quotes the wrong one.
    """
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not is_name(name):
            problem = "give name=value, the name in the letters a-z and digits"
            raise Misconfigured(f"{option} is {quoted(text)}: {problem}", field=option)
        found[name] = value
    return found


def _any(patterns: tuple[str, ...], text: str) -> bool:
    return not patterns or any(fnmatchcase(text, pattern) for pattern in patterns)

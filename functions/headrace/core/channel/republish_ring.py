"""Streams that republish to one another: an event that goes round comes again and again, with a longer head each time.

The server refuses a stream that republishes to itself, and streams that copy from one another, but no ring of several
that republish. There it ends with the 64 KiB that a head may have: 459 events of 15 MB for one of 47 bytes (NATS 2.15).
Here the configurations tell where an event can go, so a channel that would be in such a ring republishes nothing. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from headrace.core import subject_pattern
from headrace.core.channel.plan import Problem
from headrace.core.channel.stream_config import WantedStreams
from headrace.core.quoting import quoted
from headrace.core.raw_config import Config
from headrace.core.subject_pattern import overlap

REASON = "RepublishRing"
# Patterns that are followed in one stream; transforms of strangers could make ever new ones. Beyond, all of it is.
_MOST = 8
# A stream, and the pattern of subjects under which events lie there.
_State = tuple[str, str]
# Streams that copy another one, by its name, each with what it says of it.
_Copies = Mapping[str, list[tuple[str, Mapping[str, Any]]]]


def asks(wanted: WantedStreams) -> bool:
    """Could the channel be in a ring?"""
    return bool(wanted.config.get("republish"))


def opened(wanted: WantedStreams, streams: Iterable[Config]) -> tuple[WantedStreams, tuple[Problem, ...]]:
    """What is wanted without a ring.

    Args:
        streams: the configurations of all streams of the account.
    """
    if not asks(wanted):
        return wanted, ()
    own = wanted.place.stream
    known = {str(each["name"]): each for each in streams} | {own: wanted.config}
    there = _ways([(own, ">")], known)
    if not any(state[0] == own and _leads(state, state, there) for state in there):
        return wanted, ()
    to = wanted.config["republish"]["dest"]
    rule = f"spec.stream.config.republish.destination is {quoted(to)}: other streams lead from there back to {own}"
    others = ", ".join(sorted({name for name, _ in there} - {own})[:3])
    told = f"{rule} ({others}), so an event would go round; nothing is republished until one of them leads elsewhere"
    return replace(wanted, config={**wanted.config, "republish": None}), (Problem(REASON, told),)


def _ways(begin: Iterable[_State], streams: Mapping[str, Config]) -> dict[_State, list[_State]]:
    """The places that events get to, each with those that follow it."""
    found: dict[_State, list[_State]] = {}
    open_, followed, copies = list(begin), Counter[str](), _copies(streams)
    while open_:
        state = open_.pop()
        if state not in found:
            followed[state[0]] += 1
            found[state] = [(to, as_ if followed[to] < _MOST else ">") for to, as_ in _next(state, streams, copies)]
            open_ += found[state]
    return found


def _copies(streams: Mapping[str, Config]) -> _Copies:
    found: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for name, one in streams.items():
        for origin in (*(one.get("sources") or ()), *([one["mirror"]] if one.get("mirror") else [])):
            # Another account's stream may have the same name.
            if not origin.get("external"):
                found.setdefault(origin["name"], []).append((name, origin))
    return found


def _leads(begin: _State, end: _State, ways: Mapping[_State, list[_State]]) -> bool:
    seen: set[_State] = set()
    open_ = list(ways.get(begin, ()))
    while open_:
        state = open_.pop()
        if state == end:
            return True
        if state not in seen:
            seen.add(state)
            open_ += ways.get(state, ())
    return False


def _next(state: _State, streams: Mapping[str, Config], copies: _Copies) -> Iterator[_State]:
    """Where an event goes that has come into a stream under a subject of that pattern."""
    name, came = state
    config = streams[name]
    # A transform that can't be followed leads anywhere.
    lies = subject_pattern.stored(came, config.get("subject_transform")) or ">"
    republish = config.get("republish") or {}
    if republish and overlap(str(republish.get("src") or ">"), lies):
        to = subject_pattern.results(str(republish["dest"]))
        yield from ((other, to) for other, one in streams.items() if any(overlap(to, each) for each in _subjects(one)))
    for other, origin in copies.get(name, ()):
        yield from ((other, each) for each in _copied(origin, lies))


def _copied(origin: Mapping[str, Any], lies: str) -> list[str]:
    """The patterns under which another stream gets a copy."""
    transforms = origin.get("subject_transforms") or ()
    if transforms:
        return [subject_pattern.results(str(one["dest"])) for one in transforms if overlap(str(one["src"]), lies)]
    return [lies] if overlap(str(origin.get("filter_subject") or ">"), lies) else []


def _subjects(config: Config) -> list[str]:
    return list(config.get("subjects") or ())

"""The subjects and streams that the channels of a namespace may name (ADR 050).

A name in NATS is everybody's, while a manifest is its author's, who may be a tenant: so a channel may name what is its
namespace's own, and what the administrator's list opens to it. What is the server's, ours or another channel's is
opened only by an entry that says the very same words, not by a wildcard. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.core import names
from headrace.core.installation.tenants import Tenant, stands_for
from headrace.core.nats.stream import ChannelStream
from headrace.core.quoting import quoted
from headrace.core.subject_pattern import covers, overlap

EVERYBODYS = ("*", ">")
"""Subjects that begin so are opened by no list."""
# Subjects of channels, of their aside streams, and of the Go channel's consumers.
_OF_CHANNELS = ("*.*._knative", "*.*._knative_aside.>", "*.*._knative_consumer.>")
_LABEL = re.compile(r"[a-z0-9-]+|\*|>")
# The ends of names that only `headrace.core.names` gives.
_GIVEN_END = re.compile(r"(_x[0-9a-f]{16}|_aside)\Z")
_TAKEN_STREAMS = (
    (re.compile(r"KV_|OBJ_"), "a stream of that name is a bucket"),
    (re.compile(r"\$"), "streams whose names begin with $ are the server's"),
    (re.compile(r"KN_|.*_aside\Z", re.DOTALL), "a stream of that name is, or can become, another channel's"),
)
_TAKEN_WHYS = frozenset(why for _, why in _TAKEN_STREAMS)
_CAN_MEAN = "it can mean a subject of a channel"


_OPENED = {
    "$": "ask the server, in its own name, for whatever that subject stands for, also about others' streams",
    "_": "read or forge answers that are others'",
    "headrace.": "tell parts of Headrace what only they tell one another",
}


def opened(value: str, why: str) -> str:
    """What an entry would let a namespace do beyond its own: for words that no wildcard opens; empty for all others.

    Args:
        why: as `Reach` says it.
    """
    begin = next((words for begin, words in _OPENED.items() if value.startswith(begin)), "")
    taken = why in _TAKEN_WHYS or why.startswith(_CAN_MEAN)
    return begin or ("read or change what belongs to another channel or a bucket" if taken else "")


@dataclass(frozen=True, slots=True)
class Reach:
    """The reach of one channel.

    Attributes:
        place: the channel's own names, with its namespace.
        entries: those of the administrator's list that are about its namespace.
    """

    place: ChannelStream
    entries: tuple[Tenant, ...] = ()

    def of_subject(self, value: str, pattern: str) -> str:
        """Why the channel may not name a subject; empty if it may.

        Args:
            value: the author's words.
            pattern: what matches every subject that they can mean.
        """
        listed = [one for entry in self.entries for one in entry.subjects]
        own = self.place.channel.subject.removesuffix("_knative")
        # What is aside is ours alone: with it an author could forge records of deliveries.
        if pattern.startswith(own) and not overlap(pattern, f"{own}_knative_aside.>"):
            return ""
        if pattern.startswith(EVERYBODYS):
            return "it means subjects of the server, and of all namespaces"
        if value in listed:
            return ""
        taken = _taken(pattern)
        below = f"{self.place.owner.namespace}.>"
        if not taken and any(covers(one, pattern) for one in (below, *listed)):
            return ""
        return taken or f"only subjects below {quoted(below)} are its own"

    def of_stream(self, name: str) -> str:
        """Why the channel may not name a stream; empty if it may."""
        owner = self.place.owner
        listed = [one for entry in self.entries for one in entry.streams]
        if name in (names.stream(owner.namespace, owner.channel), *listed):
            return ""
        begin = f"KN_{owner.namespace.replace('-', '_').upper()}__"
        # The streams of a namespace like `shop--a` begin as those of `shop` do: all of them have such an end.
        if "--" not in owner.namespace and name.startswith(begin) and not _GIVEN_END.search(name):
            return ""
        taken = next((why for kind, why in _TAKEN_STREAMS if kind.match(name)), "")
        if not taken and any(stands_for(one, name) for one in listed):
            return ""
        return taken or f"only streams whose names begin with {begin} are its own"


def _taken(pattern: str) -> str:
    """Whose a subject is, or can be; empty for nobody's in particular."""
    first, _, rest = pattern.partition(".")
    if first.startswith("$"):
        return "subjects that begin with $ are the server's"
    if first.startswith("_"):
        return "subjects that begin with _ are for answers"
    if first == "headrace":
        return "subjects below headrace are Headrace's own"
    labels = _LABEL.fullmatch(first) and _LABEL.fullmatch(rest.partition(".")[0])
    of_channel = next((one for one in _OF_CHANNELS if overlap(pattern, one)), "") if labels else ""
    return f"{_CAN_MEAN}, {of_channel}" if of_channel else ""

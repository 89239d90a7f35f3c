"""Who may send which events to a channel, at an event's time.

Made anew from each security document; the first event of a sender to a channel costs a look through the channel's
policies, each further one a look-up, and the filters where there are some. Pure. Called by `headrace.receive`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.core import names
from headrace.core.errors import Refused
from headrace.core.quoting import quoted
from headrace.core.security import filters
from headrace.core.security.document import SecurityDocument
from headrace.core.security.flags import DEFAULT_MODE, DefaultMode
from headrace.core.security.policy import Part

MOST_KNOWN = 10_000
"""Pairs of sender and channel that are remembered."""
_SERVICE_ACCOUNT = "system:serviceaccount"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a sender may do at a channel.

    Attributes:
        refusal: makes the error of an event that is not let in; an error is raised once.
        passing: an event is let in that passes one of these; None: any event is. Empty: none is.
    """

    refusal: Callable[[], Refused]
    passing: tuple[filters.Passes, ...] | None = ()

    def check(self, attributes: Mapping[str, str]) -> None:
        """Raises:
        Refused: the event is not let in.
        """
        if self.passing is not None and not any(passes(attributes) for passes in self.passing):
            raise self.refusal()

    @property
    def any_event(self) -> bool:
        """Is every event let in?"""
        return self.passing is None


@dataclass(slots=True)
class _Policies:
    """The policies of a channel; filters become functions when the first event needs them."""

    entries: list[Mapping[str, Any]]
    made: dict[int, filters.Passes] = field(default_factory=dict)

    def passing(self, subject: str) -> tuple[filters.Passes, ...] | None:
        found = []
        for index, entry in enumerate(self.entries):
            if _means(entry["from"], subject):
                tree = entry.get("filters")
                if tree is None:
                    return None
                if index not in self.made:
                    self.made[index] = filters.passing(tree)
                found.append(self.made[index])
        return tuple(found)


class Senders:
    """What a document says of every sender and channel."""

    def __init__(self, document: SecurityDocument) -> None:
        # An event tells its channel's subject, of which a long name can't be read back.
        self._channels = {names.channel(*key.split("/", 1)).subject: part for key, part in document.channels.items()}
        self._mode = document.flags.default_mode
        self._policies: dict[str, _Policies] = {}
        self._known: dict[tuple[str, str], Verdict] = {}

    def verdict(self, channel: str, sender: str) -> Verdict:
        """What a sender may do.

        Args:
            channel: the subject of its events in NATS.
            sender: the verified identity.
        """
        if (found := self._known.get((channel, sender))) is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            found = self._known[channel, sender] = self._judged(channel, sender)
        return found

    def _judged(self, channel: str, sender: str) -> Verdict:
        part: Part | None = self._channels.get(channel)
        if part is None:
            return self._by_default(names.labels(channel)[0], sender)
        if "unreadable" in part:
            words = f"nobody can say who may send to this channel: {part['unreadable']}"
            return Verdict(lambda: Refused(words, status=500))
        policies = self._policies.setdefault(channel, _Policies(part["policies"]))
        passing = policies.passing(sender)
        if passing == ():
            return _no(f"no EventPolicy of this channel lets {quoted(sender, 200)} send", _ASK)
        return _no(f"the EventPolicies of this channel don't let {quoted(sender, 200)} send this event", _ASK, passing)

    def _by_default(self, namespace: str, subject: str) -> Verdict:
        own = subject.startswith(f"{_SERVICE_ACCOUNT}:{namespace}:")
        if self._mode is DefaultMode.ALLOW_ALL or (self._mode is DefaultMode.ALLOW_SAME_NAMESPACE and own):
            return _no("", "", None)
        words = f"no EventPolicy applies to this channel, and {DEFAULT_MODE} is {self._mode}"
        return _no(f"{words}: {quoted(subject, 200)} may not send", _ASK)


_ASK = "ask those who own the channel's namespace for an EventPolicy"


def _no(words: str, advice: str, passing: tuple[filters.Passes, ...] | None = ()) -> Verdict:
    return Verdict(lambda: Refused(f"{words}: {advice}", status=403), passing)


def _means(patterns: list[str], subject: str) -> bool:
    """Does one of these subjects name this one? In upper or lower case; one that ends with `*` as a beginning."""
    lower = subject.lower()
    return any(
        pattern.lower() == lower or (pattern.endswith("*") and subject.startswith(pattern[:-1])) for pattern in patterns
    )

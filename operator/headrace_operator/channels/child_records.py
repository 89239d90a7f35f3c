"""Records of the children that were applied: with them an idle operator asks the API server for nothing.

A child carries the digest of the object that was wanted. It is there when that digest is today's and the child looks as
it did when it was applied, or has every wanted field. This module knows objects and time; it is called by
`headrace_operator.channels.children`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from headrace.core.channel.child_marks import DIGEST_ANNOTATION
from headrace.core.errors import Refused
from headrace_operator.channels import child as children_of
from headrace_operator.channels.child import Child, Spot
from headrace_operator.kube.api import Body, NoRight, passes

# Two programs that both want the last word would keep the API server busy.
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
QUIET_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class ChildProblem:
    """A child that could not be made as it is wanted.

    Attributes:
        words: which child, and why, in the API server's words.
        passes: the next attempt may succeed.
        lacks: the namespace in which our account lacks a right, and the account; None for other problems.
    """

    words: str
    passes: bool = False
    lacks: tuple[str, str] | None = None

    @classmethod
    def of(cls, spot: Spot, error: Refused) -> Self:
        """The refusal of a child."""
        lacks = (spot[1][0], error.user) if isinstance(error, NoRight) else None
        return cls(f"{children_of.title(spot)}: {error}", passes(error), lacks)


@dataclass(frozen=True, slots=True)
class ChildrenOutcome:
    """What became of one channel's children.

    Attributes:
        problems: one for each child that could not be made as it is wanted.
        again_after: seconds until a contested child is healed; None when none is.
        ending: the channel's namespace is being deleted, and takes nothing new.
    """

    problems: tuple[ChildProblem, ...] = ()
    again_after: float | None = None
    ending: bool = False


@dataclass(slots=True)
class ChildRecord:
    """The digest that was applied last, the object's fingerprint then, and how often it was healed in a row."""

    digest: str
    looks: str
    heals: int = 0
    at: float = float("-inf")


class ChildRecords:
    """The children that this process has applied, or found applied by the process before."""

    def __init__(self) -> None:
        self._applied: dict[Spot, ChildRecord] = {}

    def is_there(self, parent: Mapping[str, Any], child: Child, live: Body) -> bool:
        """Is the live object as it is wanted, and does this channel own it where it may?"""
        annotations = live["metadata"].get("annotations") or {}
        if annotations.get(DIGEST_ANNOTATION) != child.digest:
            return False
        if children_of.may_own(child, parent) and parent["metadata"]["uid"] not in children_of.owners(live):
            return False
        looks = children_of.fingerprint(live)
        before = self._applied.get(child.spot)
        if before is not None and (before.digest, before.looks) == (child.digest, looks):
            return True
        if not children_of.covers(live, child.body):
            return False
        if before is None:
            self._applied[child.spot] = ChildRecord(child.digest, looks)
        else:
            before.digest, before.looks = child.digest, looks
        return True

    def contested(self, child: Child, now: float) -> float | None:
        """Seconds that a child must wait because somebody keeps changing it back; None when it need not wait."""
        before = self._applied.get(child.spot)
        if before is None or before.digest != child.digest or not before.heals or now > before.at + QUIET_SECONDS:
            return None
        left = before.at + min(LONGEST_PAUSE, FIRST_PAUSE * 2.0**before.heals) - now
        return left if left > 0 else None

    def note(self, child: Child, applied: Body, now: float) -> None:
        """Remember that the child was applied, and the object that the API server answered."""
        before, heals = self._applied.get(child.spot), 0
        if before is not None and before.digest == child.digest and now <= before.at + QUIET_SECONDS:
            heals = before.heals + 1
        self._applied[child.spot] = ChildRecord(child.digest, children_of.fingerprint(applied), heals, now)

    def forget(self, spot: Spot) -> None:
        self._applied.pop(spot, None)

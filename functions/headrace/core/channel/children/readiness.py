"""What the states of its functions mean for a channel and for each of its subscribers (ADR 038).

Storing is the channel's: without `receive` it is not ready. Delivering is a subscriber's: a trouble of its `forward`
shows in its entry of `status.subscribers`, and makes the channel no worse for the others. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.core.channel.children.state import FunctionState, State
from headrace.core.conditions import Condition

CONDITION = "FunctionsReady"
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class FunctionPart:
    """One function of a channel.

    Attributes:
        needed: without it no event is stored.
    """

    name: str
    state: State
    needed: bool


@dataclass(frozen=True, slots=True)
class SubscriberReadiness:
    """The readiness of a subscriber's `forward`; `ready` is a condition's status."""

    ready: str = "True"
    message: str = ""


def condition(parts: Iterable[FunctionPart]) -> Condition:
    """The condition FunctionsReady: of no severity where the channel can't store, else Info or True."""
    known = list(parts)
    lacking = [one for one in known if one.needed and not one.state.serves]
    for standing, reason in ((FunctionState.FAILED, "FunctionFailed"), (FunctionState.NO_ROOM, "NoRoom")):
        if found := [one for one in lacking if one.state.standing is standing]:
            return Condition(CONDITION, False, reason, _describe(found), unknown=standing is FunctionState.NO_ROOM)
    if lacking:
        return Condition(CONDITION, False, "FunctionsStarting", _named(lacking), unknown=True)
    broken = [one for one in known if one.state.standing is FunctionState.FAILED]
    if found := [one for one in broken if not one.state.serves]:
        return Condition(CONDITION, False, "FunctionFailed", _describe(found), informative=True)
    if broken:
        message = f"what ran before goes on: {_describe(broken)}"
        return Condition(CONDITION, False, "UpdateFailed", message, informative=True)
    if found := [one for one in known if one.state.standing is FunctionState.NO_ROOM]:
        return Condition(CONDITION, False, "NoRoom", _describe(found), informative=True)
    if found := [one for one in known if one.state.standing is FunctionState.STARTS]:
        return Condition(CONDITION, False, "FunctionsStarting", _named(found), informative=True)
    return Condition(CONDITION, True)


def worked(status: Mapping[str, Any]) -> bool:
    """Did the channel's status say before that it can store?"""
    told = [one for one in status.get("conditions") or () if one.get("type") == CONDITION]
    return any(one.get("status") == "True" or one.get("severity") == "Info" for one in told)


def of_subscriber(name: str, state: State) -> SubscriberReadiness:
    """The readiness of a subscriber with this `forward`."""
    if state.serves:
        return SubscriberReadiness()
    if state.standing is FunctionState.FAILED:
        return SubscriberReadiness("False", f"{name}, which delivers, has failed: {state.words}")
    if state.standing is FunctionState.NO_ROOM:
        return SubscriberReadiness("Unknown", f"there is no room for {name}, which delivers: {state.words}")
    return SubscriberReadiness("Unknown", f"{name}, which delivers, is not ready yet")


def _describe(parts: Sequence[FunctionPart]) -> str:
    return "; ".join(f"{one.name}: {one.state.words}" for one in parts[:_SHOWN])


def _named(parts: Sequence[FunctionPart]) -> str:
    more = f" and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    return f"not ready yet: {', '.join(one.name for one in parts[:_SHOWN])}{more}"

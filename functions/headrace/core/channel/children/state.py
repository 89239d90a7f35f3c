"""The state of a function, read off its object: it works, starts, finds no room or has failed.

The object also says whether the pods that ran before still serve. Knows how Knative Serving 1.16 and later and
Kubernetes report all this (ADR 038). Pure; every object passes through `observed.legible` before it is read here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

# The scheduler's words for a pod that fits no node, and those of a used-up quota. Knative tells them as the message of
# a revision that has failed, and keeps the reason to itself.
_NO_ROOM = re.compile(r"\bnodes are available\b|\bno nodes available\b|\bexceeded quota\b")
# The reason of a Route that is not ready because its revision is not.
_OF_REVISION = "RevisionMissing"
_SILENT = "it does not say why"


class FunctionState(Enum):
    """An object's word on itself."""

    WORKS = "works"
    STARTS = "starts"
    NO_ROOM = "no room"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class State:
    """The state of one function.

    Attributes:
        words: why it does not work, in the words of its runtime.
        serves: requests are answered, by pods that are there or as soon as one is: it has been ready, and the ready
            revision has not failed since. A function at zero serves.
    """

    standing: FunctionState
    words: str = ""
    serves: bool = False


WORKS = State(FunctionState.WORKS, serves=True)
UNSEEN = State(FunctionState.STARTS)


def state(live: Mapping[str, Any] | None, *, worked: bool = False) -> State:
    """The state of the function with this object.

    Args:
        live: the object, `legible`; None when it is not there yet.
        worked: its status said before that it serves. While Knative leads requests to a new revision, its Route is not
            ready for a moment, as before it ever was.
    """
    if live is None:
        return UNSEEN
    status = live.get("status") or {}
    told = {str(each.get("type")): each for each in status.get("conditions") or ()}
    return _of_deployment(told) if live.get("kind") == "Deployment" else _of_knative(told, status, worked=worked)


def _of_knative(told: Mapping[str, Mapping[str, Any]], status: Mapping[str, Any], *, worked: bool) -> State:
    ready, route = told.get("Ready", {}), told.get("RoutesReady", {})
    if ready.get("status") == "True":
        return WORKS
    last, newest = status.get("latestReadyRevisionName"), status.get("latestCreatedRevisionName")
    # A revision's failure is its Route's, too; requests are led there all the same.
    moving = worked and route.get("status") != "False"
    reached = route.get("status") == "True" or route.get("reason") == _OF_REVISION or moving
    # Requests go to the revision that was ready last, at zero or not.
    before = bool(last) and reached
    if ready.get("status") != "False":
        return State(FunctionState.STARTS, _words(ready, ""), before)
    newer = told.get("ConfigurationsReady", {})
    # The Route says that a revision has failed, and not why.
    words = _words(newer if newer.get("status") == "False" else ready)
    if _NO_ROOM.search(words):
        return State(FunctionState.NO_ROOM, words, before)
    # The failure is a newer revision's, or that of the very one that requests go to.
    return State(FunctionState.FAILED, words, before and last != newest)


def _of_deployment(told: Mapping[str, Mapping[str, Any]]) -> State:
    available = told.get("Available", {}).get("status") == "True"
    progress, refused = told.get("Progressing", {}), told.get("ReplicaFailure", {})
    # The reason holds once the newest pods have been ready, until there are newer ones.
    before = available or progress.get("reason") == "NewReplicaSetAvailable"
    if refused.get("status") == "True":
        words = _words(refused)
        lacking = bool(_NO_ROOM.search(words))
        return State(
            FunctionState.NO_ROOM if lacking else FunctionState.FAILED, words, before if lacking else available
        )
    if progress.get("status") == "False":
        return State(FunctionState.FAILED, _words(progress), available)
    return WORKS if available else State(FunctionState.STARTS, "", before)


def _words(condition: Mapping[str, Any], silent: str = _SILENT) -> str:
    return str(condition.get("message") or condition.get("reason") or silent)

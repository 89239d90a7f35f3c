"""What a channel object says of itself, and how two of its versions differ. Pure; passes and their worlds ask it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.core.channel.customize import PARENT_ANNOTATIONS
from headrace_operator.kube.api import Body

FINALIZER = "headrace.dev/channel"


def is_going(channel: Mapping[str, Any]) -> bool:
    return bool(channel["metadata"].get("deletionTimestamp"))


def is_held(channel: Mapping[str, Any]) -> bool:
    """Does our finalizer hold the channel?"""
    return FINALIZER in (channel["metadata"].get("finalizers") or ())


def is_left(channel: Mapping[str, Any]) -> bool:
    """Is the channel being deleted, and is our finalizer off?"""
    return is_going(channel) and not is_held(channel)


def version(channel: Mapping[str, Any]) -> tuple[str, int]:
    """Uid and generation: together they name one state of the author's manifest."""
    return str(channel["metadata"]["uid"]), int(channel["metadata"].get("generation") or 0)


def mentioned(channel: Mapping[str, Any]) -> set[str]:
    """Uids of the Subscriptions that a channel has, or had when its status was written."""
    status = channel.get("status") or {}
    rows = (
        *((channel.get("spec") or {}).get("subscribers") or ()),
        *(status.get("subscribers") or ()),
        *(status.get("consumers") or ()),
    )
    return {str(row["uid"]) for row in rows if isinstance(row, Mapping) and row.get("uid")}


def says_the_same(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Has nothing changed except the parts that the operator writes itself?"""
    keys = ("uid", "generation", "labels", "deletionTimestamp")
    lost = is_held(old) and not is_held(new)
    before, after = (dict(one["metadata"].get("annotations") or {}) for one in (old, new))
    for name, value in PARENT_ANNOTATIONS.items():
        if name not in before and after.get(name) == value:
            del after[name]
    same = all(old["metadata"].get(each) == new["metadata"].get(each) for each in keys)
    return not lost and same and before == after


def lacking(channel: Mapping[str, Any], annotations: Mapping[str, str]) -> dict[str, str]:
    """The annotations that the channel does not have; one with another value is not among them."""
    there = channel["metadata"].get("annotations") or {}
    return {name: value for name, value in annotations.items() if name not in there}


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> Body:
    """The merge patch that turns `before` into `after`; empty when they are the same."""
    patch: Body = dict.fromkeys(before.keys() - after.keys())
    for name, value in after.items():
        old = before.get(name)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            inner = difference(old, value)
            if inner:
                patch[name] = inner
        elif old != value or name not in before:
            patch[name] = value
    return patch


def without(channel: Mapping[str, Any], uids: Iterable[str]) -> list[Any] | None:
    """`spec.subscribers` without the entries of these uids; None when there are none of them."""
    gone = set(uids)
    entries = (channel.get("spec") or {}).get("subscribers") or []
    kept = [entry for entry in entries if entry.get("uid") not in gone]
    return None if len(kept) == len(entries) else kept

"""The world of passes that manifest files make: it keeps of the channels what an API server would keep.

A channel that is in no file any more is going: our finalizer holds it until nothing is left of it. If it comes back
before that, it stays, with its status. A laptop has nothing else for the hook to see, and nothing else to make. This
module knows objects, and neither files nor processes; `headrace_operator.channels.world` says what its methods are for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Any

from headrace.core.channel.hook import HookRequest, Reference
from headrace.io.process import log
from headrace_operator.channels.channel_object import FINALIZER, is_going
from headrace_operator.channels.child_records import ChildrenOutcome
from headrace_operator.kube.api import Body, Conflict
from headrace_operator.kube.kinds import CHANNEL, Key, key
from headrace_operator.kube.watch import Cache

_log = log.get("up")


class FileWorld:
    """The channels of one `headrace up`."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.channels = Cache(CHANNEL)
        self._clock = clock
        self._versions = count(1)

    def apply(self, written: Mapping[Key, Mapping[str, Any]]) -> None:
        """Make these the channels; they are all that the files hold.

        A channel or a subscriber that brings no generation of its own gets one that grows when it changes: milliseconds
        of the wall clock, greater than any that an earlier run has written to the server.
        """
        stay = {key(channel): channel for channel in self.channels if not is_going(channel)}
        for place in stay.keys() - written.keys():
            _log.info("channel is in no file any more, taking it down", channel="/".join(place))
            ending = {**stay[place]["metadata"], "deletionTimestamp": datetime.now(UTC).isoformat()}
            self._put(stay[place], metadata=ending)
        now_ms = int(self._clock() * 1000)
        for place, wanted in written.items():
            before = stay.get(place) or {"metadata": {}, "spec": {}}
            metadata = {name: value for name, value in wanted["metadata"].items() if name != "deletionTimestamp"}
            spec = dict(wanted["spec"])
            if entries := spec.get("subscribers"):
                known = {entry["uid"]: entry for entry in before["spec"].get("subscribers") or ()}
                spec["subscribers"] = [_numbered(entry, known.get(entry["uid"]), now_ms) for entry in entries]
            old = {"spec": before["spec"], "generation": before["metadata"].get("generation")}
            new = {"spec": spec, "generation": metadata.get("generation")}
            metadata |= {"generation": _numbered(new, old, now_ms)["generation"], "finalizers": [FINALIZER]}
            status = (self.channels.get(place) or {}).get("status") or {}
            self._put(wanted, metadata=metadata, spec=spec, status=status)

    async def prepare(self, channel: Body) -> Body:
        return channel

    def request(self, channel: Body, *, finalizing: bool, ending: bool) -> tuple[HookRequest, bytes]:
        return HookRequest(channel, finalizing=finalizing, ending=ending), b"{}"

    async def absent(self, _references: Sequence[Reference]) -> frozenset[str]:
        return frozenset()

    async def make_so(
        self, _channel: Body, _wanted: Sequence[Mapping[str, Any]], _check: Callable[[], None] = lambda: None
    ) -> ChildrenOutcome:
        return ChildrenOutcome()

    async def prune(self, channel: Body, kept: list[Any]) -> Body:
        return self._put(channel, spec={**channel["spec"], "subscribers": kept})

    async def write_status(self, channel: Body, status: Mapping[str, Any]) -> Body | None:
        now = self.channels.get(key(channel))
        if now is None:
            return None
        _log_changes(channel, status)
        return self._put(now, status=status)

    async def let_go(self, channel: Body) -> None:
        now = self.channels.get(key(channel))
        if now is None or not is_going(now):
            raise Conflict("the channel is in a file again", status=409)
        self.channels.remove(now)

    def tell(self, channel: Mapping[str, Any], reason: str, message: str, *, warning: bool = False) -> None:
        """Does nothing: nobody reads Events here, and the log says the same."""

    def forget(self, place: Key) -> None:
        """Does nothing: only the object is known of a channel."""

    def _put(self, channel: Mapping[str, Any], *, metadata: Mapping[str, Any] | None = None, **parts: Any) -> Body:
        before = self.channels.get(key(channel))
        body = {**channel, **parts}
        body["metadata"] = {
            **(metadata or channel["metadata"]),
            "resourceVersion": before and before["metadata"]["resourceVersion"],
        }
        if before != body:
            body["metadata"]["resourceVersion"] = str(next(self._versions))
            self.channels.put(body)
        return body


def _numbered(new: Mapping[str, Any], old: Mapping[str, Any] | None, now_ms: int) -> dict[str, Any]:
    """The object with a generation if it brings none: the one of before, unless the object has changed."""
    before = (old or {}).get("generation")
    if not before or new.get("generation"):
        return {**new, "generation": new.get("generation") or now_ms}
    same = {**new, "generation": before} == old
    return {**new, "generation": before if same else max(before + 1, now_ms)}


def _log_changes(channel: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Log one line for each condition and each subscriber that has changed in the status."""
    before, subscribers = channel.get("status") or {}, channel["spec"].get("subscribers") or ()
    names = {entry["uid"]: entry["name"] for entry in subscribers if entry.get("name")}
    known = _claims(before, names)
    unwell = {one.get("type") for one in before.get("conditions") or () if one.get("status") == "False"}
    for row, claim in _claims(after, names).items():
        if known.get(row) == claim:
            continue
        # For good news one line for a channel is enough, unless the condition or subscriber was bad before.
        well = _log.info if row == ("condition", "Ready") or claim.get("condition") in unwell else _log.debug
        write = well if claim["status"] == "True" else _log.warning
        write("status changed", channel="/".join(key(channel)), **claim)


def _claims(status: Mapping[str, Any], names: Mapping[str, str]) -> dict[tuple[str, str], dict[str, str]]:
    """The parts of a status by condition and by subscriber; `names` has the subscribers' names by uid."""
    rows = [("condition", str(row.get("type")), row.get("status"), row) for row in status.get("conditions") or ()]
    rows += [("subscriber", str(row.get("uid")), row.get("ready"), row) for row in status.get("subscribers") or ()]
    return {
        (part, name): {
            part: names.get(name, name) if part == "subscriber" else name,
            "status": str(says),
            **{word: str(row[word]) for word in ("reason", "message") if row.get(word)},
        }
        for part, name, says, row in rows
    }

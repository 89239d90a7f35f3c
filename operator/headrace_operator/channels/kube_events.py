"""Kubernetes Events: news for `kubectl describe`, each once, with a count when it comes again.

The writer takes words without waiting, and writes them one after the other, not faster than the API server likes. An
Event that can't be written is no loss for the channel: it is dropped, with a line in the log. When the operator ends,
it writes the Events that wait, as far as a few seconds reach: the next operator would not say them again.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from headrace.core.errors import HeadraceError, Refused, Unavailable
from headrace.core.quoting import plain_lines
from headrace.io.process import clock, log
from headrace.io.process.trouble import Trouble
from headrace_operator.kube.api import KubeApi, NamespaceGoing
from headrace_operator.kube.kinds import EVENT

CONTROLLER = "headrace.dev/operator"
# The API server's own limits.
LONGEST_NOTE, LONGEST_REASON, LONGEST_NAME = 1024, 128, 200
MOST_WAITING, MOST_KNOWN = 4_000, 4_000
SECONDS_EACH = 0.05
# An Event that comes again within a minute is only counted; the next one after the minute is written with the count.
COUNT_SECONDS = 60.0
# Well below the 30 s after which Kubernetes kills a pod; the Lease has been given back by then.
FLUSH_SECONDS, FLUSH_LANES = 3.0, 8

_log = log.get("events")


@dataclass(slots=True)
class WrittenEvent:
    """One Event: how often it has happened, and when that was written."""

    count: int = 0
    written: int = 0
    at: float = float("-inf")


class EventWriter:
    """Writes Events about channels; `run` it beside everything else."""

    def __init__(self, api: KubeApi, instance: str) -> None:
        self._api = api
        self._instance = instance[:128]
        self._waiting: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._told: OrderedDict[str, WrittenEvent] = OrderedDict()
        self._filled = asyncio.Event()
        self._writing: asyncio.Task[bool] | None = None
        self._trouble = Trouble()

    def __call__(self, channel: Mapping[str, Any], reason: str, message: str, *, warning: bool = False) -> None:
        """Queue an Event about a channel; the same words again are counted."""
        metadata = channel["metadata"]
        told = hashlib.sha256("\0".join((metadata["uid"], reason, message)).encode()).hexdigest()[:16]
        name = f"{metadata['name'][:LONGEST_NAME]}.{told}"
        if name not in self._waiting and len(self._waiting) >= MOST_WAITING:
            return
        known = self._told.setdefault(name, WrittenEvent())
        known.count += 1
        self._told.move_to_end(name)
        while len(self._told) > MOST_KNOWN:
            self._told.popitem(last=False)
        if known.written and clock.monotonic() < known.at + COUNT_SECONDS:
            return
        self._waiting[name] = self._body(name, channel, reason, message, warning=warning)
        self._filled.set()

    def tell_changes(self, channel: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """Queue an Event for each condition that differs between two statuses."""
        was = {one.get("type"): (one.get("status"), one.get("reason")) for one in before.get("conditions") or ()}
        for one in after.get("conditions") or ():
            now = (one.get("status"), one.get("reason"))
            old = was.get(one.get("type"))
            if old == now or (old is None and one.get("status") == "True" and one.get("type") != "Ready"):
                continue
            holds = one.get("status") == "True"
            reason = str(one["type"]) if holds else str(one.get("reason") or f"Not{one['type']}")
            words = f"{one['type']} is {one.get('status')}" + (f": {one['message']}" if one.get("message") else "")
            self(channel, reason, words, warning=not holds)

    @property
    def waiting(self) -> int:
        """Events that are not written yet."""
        return len(self._waiting)

    async def run(self) -> None:
        """Write until cancelled; `flush` waits for the Event that is being written then."""
        while True:
            while not self._waiting:
                self._filled.clear()
                await self._filled.wait()
            self._writing = asyncio.create_task(self._write_next(), name="event")
            await asyncio.shield(self._writing)
            await asyncio.sleep(SECONDS_EACH)

    async def flush(self, seconds: float = FLUSH_SECONDS) -> None:
        """Write the waiting Events, once `run` has ended; those that still wait after `seconds` are dropped."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                if self._writing is not None:
                    await self._writing
                async with asyncio.TaskGroup() as tasks:
                    for _ in range(FLUSH_LANES):
                        tasks.create_task(self._write_all())
        if self._waiting:
            _log.info("Events are dropped, since the operator ends", count=len(self._waiting))

    async def _write_all(self) -> None:
        """Write until no Event is left, or the API server does not answer."""
        while self._waiting and await self._write_next():
            pass

    async def _write_next(self) -> bool:
        """Write the next Event; False when the API server did not answer."""
        name, body = self._waiting.popitem(last=False)
        try:
            await self._write(name, body)
        except (Refused, Unavailable) as error:
            self._complain(error, reason=body["reason"], note=body["note"])
            return not isinstance(error, Unavailable)
        self._trouble.over()
        return True

    def _complain(self, error: HeadraceError, **dropped: str) -> None:
        # Where the namespace goes, and the channel with it, nobody reads the Event any more.
        going = isinstance(error, NamespaceGoing) or (isinstance(error, Refused) and error.status == 404)
        write = _log.warning if not going and self._trouble.note(type(error).__name__) else _log.debug
        write("Events can't be written, and are dropped", error=str(error), **dropped)

    async def _write(self, name: str, body: dict[str, Any]) -> None:
        told = self._told.setdefault(name, WrittenEvent(1))
        namespace = body["metadata"]["namespace"]
        try:
            await self._api.create(EVENT.path(namespace), body)
        except Refused as error:
            if error.status != 409:
                raise
            # The Event was written before, perhaps by the operator before us.
            path = EVENT.path(namespace, name)
            before = (await self._api.get(path) or {}).get("series") or {}
            count = max(2, int(before.get("count") or 1) + max(1, told.count - told.written))
            await self._api.merge(path, {"series": {"count": count, "lastObservedTime": body["eventTime"]}})
        told.written, told.at = told.count, clock.monotonic()

    def _body(
        self, name: str, channel: Mapping[str, Any], reason: str, message: str, *, warning: bool
    ) -> dict[str, Any]:
        metadata = channel["metadata"]
        return {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {"name": name, "namespace": metadata["namespace"]},
            "eventTime": clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance,
            "action": "Reconcile",
            "reason": reason[:LONGEST_REASON],
            "note": plain_lines(message)[:LONGEST_NOTE],
            "type": "Warning" if warning else "Normal",
            "regarding": {
                "apiVersion": channel["apiVersion"],
                "kind": channel["kind"],
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
            },
        }

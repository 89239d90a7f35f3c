"""The scaler with the channels: which streams it serves, and at which `forward` it opens a lease.

It reads the status that the hook has written, so it works from the first moment on, whether the hook answers or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from headrace.core.delivery.lease import Lease, LeaseAnswer
from headrace.core.errors import Refused
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.nats.client import Client
from headrace.io.process import log
from headrace_operator.kube.api import Body
from headrace_operator.kube.kinds import Key, key
from headrace_operator.scaling.lease_client import Meanwhile
from headrace_operator.scaling.scaler import SWEEP_SECONDS, Scaler

# The sweep reports a missing stream again and again, also while it is being made.
REPAIR_SECONDS = 5.0
# Signs of trouble come in crowds.
LOOK_SECONDS = 2.0
# Events that a burst leaves for a moment are no backlog.
BACKLOG_SECONDS = 15.0

_log = log.get("scaler")

ChannelLeaseOpener = Callable[[str, Lease, Meanwhile], Awaitable[LeaseAnswer]]


class ChannelScaler:
    """Wakes `forward` for every channel.

    Attributes:
        scaler: holds the leases.
        on_trouble: called with a channel that is to be reconciled, and with the seconds until then.
    """

    def __init__(
        self,
        client: Client,
        open_lease: ChannelLeaseOpener,
        *,
        max_in_flight: int,
        sweep_seconds: float = SWEEP_SECONDS,
    ) -> None:
        """Args:
        open_lease: opens a lease at the URL that the channel's status names; empty when it names none.
        """
        self.on_trouble: list[Callable[[Key, float], None]] = []
        self._open_lease = open_lease
        self._streams: dict[Key, str] = {}
        self._channels: dict[str, Key] = {}
        self._urls: dict[str, dict[str, str]] = {}
        self._spared: dict[str, set[str]] = {}
        self._put_at: dict[Key, float] = {}
        # Channels whose status says that their stream is there.
        self._stored: set[Key] = set()
        self._receives: dict[Key, str] = {}
        # Channels whose status says that no event waits, and those among them for which one did at the last look.
        self._quiet: set[Key] = set()
        self._suspected: set[Key] = set()
        self._told = False
        api = JetStreamApi(client)
        self.scaler = Scaler(client, api, self._open, max_in_flight=max_in_flight, sweep_seconds=sweep_seconds)
        self.scaler.spares = lambda stream, consumer: consumer in self._spared.get(stream, ())
        self.scaler.on_missing.append(self._repair)
        self.scaler.on_trouble.append(lambda stream: self._trouble(stream, LOOK_SECONDS))

    @property
    def streams(self) -> list[str]:
        return list(self._channels)

    def put(self, channel: Mapping[str, Any], *, look: bool = False) -> None:
        """Serve a channel as its status says; `look`: its consumers may have changed."""
        place, status = key(channel), channel.get("status") or {}
        # The operator can't see a channel in another NATS account: there the functions pull by themselves.
        stream = "" if status.get("elsewhere") else str(status.get("stream") or "")
        # A channel that is not served here counts, too: its `receive` does not belong to another channel alone.
        self._receives[place] = str(status.get("receive") or "")
        if self._streams.get(place) != stream:
            self._let_go(place)
            if stream:
                self._streams[place], self._channels[stream] = stream, place
            self._tell_scaler()
        if not stream:
            return
        rows = status.get("consumers") or ()
        self._urls[stream] = {str(row.get("durable")): str(row.get("forward") or "") for row in rows}
        self._spared[stream] = {str(row.get("durable")) for row in rows if row.get("pulls")}
        if any(row.get("lag") for row in rows):
            self._quiet.discard(place)
        else:
            self._quiet.add(place)
        self._stored.discard(place)
        conditions = status.get("conditions") or ()
        if any(one.get("type") == "StreamReady" and one.get("status") == "True" for one in conditions):
            self._stored.add(place)
        if look:
            self._put_at[place] = asyncio.get_running_loop().time()
            self.scaler.look_soon(stream)

    def remove(self, place: Key) -> None:
        self._receives.pop(place, None)
        self._let_go(place)

    def arrived(self, receive: str) -> None:
        """A request has woken this `receive`, a Knative Service as namespace/name, from zero."""
        places = [place for place, name in self._receives.items() if name == receive]
        for place in places:
            if place in self._streams:
                self.scaler.arrived(self._streams[place], alone=len(places) == 1)

    def _let_go(self, place: Key) -> None:
        stream = self._streams.pop(place, None)
        self._put_at.pop(place, None)
        self._quiet.discard(place)
        self._stored.discard(place)
        if stream is not None and self._channels.get(stream) == place:
            del self._channels[stream]
            self._urls.pop(stream, None)
            self._spared.pop(stream, None)
            self._tell_scaler()

    async def tell_of_backlogs(self) -> None:
        """Have channels reconciled whose status does not yet say that events wait; never returns.

        No other part reports them: a channel at rest is not looked at, and events that wait for a `forward` that is
        down are no trouble of NATS.
        """
        while True:
            await asyncio.sleep(BACKLOG_SECONDS)
            for place in self.untold_backlogs():
                for listener in self.on_trouble:
                    listener(place, 0.0)

    def untold_backlogs(self) -> list[Key]:
        """Channels whose status says that no event waits, though one does at the second look in a row."""
        rows = self.scaler.stats()["consumers"]
        waiting = {name.partition("/")[0] for name, row in rows.items() if row["pending"]}
        places = {self._channels[stream] for stream in waiting if stream in self._channels} & self._quiet
        told, self._suspected = places & self._suspected, places
        return sorted(told)

    async def _open(self, lease: Lease, meanwhile: Meanwhile) -> LeaseAnswer:
        try:
            return await self._open_lease(self._urls.get(lease.stream, {}).get(lease.consumer, ""), lease, meanwhile)
        except Refused as error:
            if error.status == 401:
                # The shared token was rotated: the hook has to tell the function anew whom it may trust.
                self._trouble(lease.stream, REPAIR_SECONDS)
            raise

    def _repair(self, stream: str) -> None:
        """A stream or consumer that reconcile had made is missing; until it has made one, it tries by itself."""
        place = self._channels.get(stream)
        if place is None or place not in self._stored:
            return
        if asyncio.get_running_loop().time() > self._put_at.get(place, float("-inf")) + REPAIR_SECONDS:
            words = "stream or consumer is missing, reconciling"
            _log.warning(words, channel="/".join(place), stream=stream)
        self._trouble(stream, REPAIR_SECONDS)

    def _trouble(self, stream: str, seconds: float) -> None:
        """Have the channel reconciled, but not for each event, and not while a missing stream is being made."""
        place = self._channels.get(stream)
        if place is None:
            return
        since = self._put_at.get(place, float("-inf"))
        wait = max(0.0, since + seconds - asyncio.get_running_loop().time())
        for listener in self.on_trouble:
            listener(place, wait)

    def _tell_scaler(self) -> None:
        """Tell the scaler once of all channels that change in this moment: at the start a thousand do."""
        if not self._told:
            self._told = True
            asyncio.get_running_loop().call_soon(self._serve)

    def _serve(self) -> None:
        self._told = False
        self.scaler.serve(self._channels)


def changed_for_scaler(old: Body | None, new: Body | None) -> bool:
    """Has anything changed that the scaler reads?"""
    parts = ("stream", "consumers", "elsewhere", "receive")
    before, after = ((each or {}).get("status") or {} for each in (old, new))
    return any(before.get(part) != after.get(part) for part in parts)

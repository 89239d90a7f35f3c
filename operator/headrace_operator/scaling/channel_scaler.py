"""The scaler with the channels: which streams it serves, and at which `forward` it opens a lease.

It believes the hook's answers, and never a status, which whoever may write a channel may write (ADR 052). So a channel
is served from its first pass on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace

from headrace.core.channel.hook import HookResponse
from headrace.core.channel.lease_places import Forward, LeasePlaces, SenderIdentity
from headrace.core.delivery.lease import Lease, LeaseAnswer
from headrace.core.delivery.subscriber import Subscriber
from headrace.core.errors import Refused, Unavailable
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.nats.client import Client
from headrace.io.process import log
from headrace_operator.kube.kinds import Key
from headrace_operator.scaling.lease_client import START_SLACK, Meanwhile
from headrace_operator.scaling.scaler import SWEEP_SECONDS, Scaler
from headrace_operator.scaling.tokens import TokenBook

# The sweep reports a missing stream again and again, also while it is being made.
REPAIR_SECONDS = 5.0
# Signs of trouble come in crowds.
LOOK_SECONDS = 2.0
# Events that a burst leaves for a moment are no backlog.
BACKLOG_SECONDS = 15.0
NOWHERE = Forward("")
# The last event of a lease may still go to its subscriber, to the reply address and to the dead letter sink.
_STAGES = 3

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
        tokens: TokenBook | None = None,
    ) -> None:
        """Args:
        open_lease: opens a lease at the URL that the hook has named; empty when it has named none.
        tokens: None where nobody can make any.
        """
        self._tokens = tokens
        # Why there are no tokens for a consumer, by channel and then by consumer.
        self._without: dict[Key, dict[str, str]] = {}
        self.on_trouble: list[Callable[[Key, float], None]] = []
        self._open_lease = open_lease
        self._places: dict[Key, LeasePlaces] = {}
        # Several channels may share a stream that somebody else has made.
        self._channels: dict[str, set[Key]] = {}
        self._put_at: dict[Key, float] = {}
        # Channels whose stream is there, as their last answer said.
        self._stored: set[Key] = set()
        # Channels of which the last answer said that no event waits, and those among them for which one did at the last
        # look.
        self._quiet: set[Key] = set()
        self._suspected: set[Key] = set()
        self._told = False
        api = JetStreamApi(client)
        self.scaler = Scaler(client, api, self.hold, max_in_flight=max_in_flight, sweep_seconds=sweep_seconds)
        self.scaler.spares = lambda served: self._forward(served.subscriber, served.stream, served.consumer).pulls
        self.scaler.on_missing.append(self._repair)
        self.scaler.on_trouble.append(lambda stream: self._trouble(stream, LOOK_SECONDS))

    @property
    def streams(self) -> list[str]:
        return list(self._channels)

    def put(self, place: Key, answer: HookResponse) -> None:
        """Serve a channel as the hook's answer says, and look at its consumers, which may have changed."""
        if answer.lease_places is not None:
            self._let_go(place, but=answer.lease_places.stream)
            # A channel that is not served here counts, too: its `receive` does not belong to another channel alone.
            self._places[place] = self._completed(place, answer.lease_places)
        stream = self._stream(place)
        if not stream:
            return
        if place not in self._channels.setdefault(stream, set()):
            self._channels[stream].add(place)
            self._tell_scaler()
        status = answer.status or {}
        waits = any(row.get("lag") for row in status.get("consumers") or ())
        (self._quiet.discard if waits else self._quiet.add)(place)
        conditions = status.get("conditions") or ()
        stored = any(one.get("type") == "StreamReady" and one.get("status") == "True" for one in conditions)
        (self._stored.add if stored else self._stored.discard)(place)
        self._put_at[place] = asyncio.get_running_loop().time()
        self.scaler.look_soon(stream)

    def _completed(self, place: Key, answered: LeasePlaces) -> LeasePlaces:
        """The hook's answer, with the last known identities where it knows none."""
        if answered.identities is None:
            before = self._places.get(place)
            return replace(answered, identities=before.identities if before is not None else {})
        told = self._without.get(place, {})
        for consumer in told.keys() - answered.identities.keys():
            del told[consumer]
        return answered

    def remove(self, place: Key) -> None:
        self._let_go(place)
        self._places.pop(place, None)
        self._without.pop(place, None)

    def arrived(self, receive: str) -> None:
        """A request has woken this `receive`, a Knative Service as namespace/name, from zero."""
        places = [place for place, one in self._places.items() if one.receive == receive]
        for place in places:
            if stream := self._stream(place):
                self.scaler.arrived(stream, alone=len(places) == 1)

    def _stream(self, place: Key) -> str:
        known = self._places.get(place)
        return known.stream if known is not None else ""

    def _let_go(self, place: Key, *, but: str = "") -> None:
        """Serve the channel's stream no more, unless it is this one."""
        stream = self._stream(place)
        if stream in ("", but):
            return
        self._put_at.pop(place, None)
        self._quiet.discard(place)
        self._stored.discard(place)
        self._channels[stream].discard(place)
        if not self._channels[stream]:
            del self._channels[stream]
            self._tell_scaler()

    def _forward(self, subscriber: Subscriber, stream: str, consumer: str) -> Forward:
        """The function that delivers for a consumer, by the word of its own channel alone: its metadata names that."""
        known = self._known(subscriber, stream)
        return known.forwards.get(consumer, NOWHERE) if known is not None else NOWHERE

    def _known(self, subscriber: Subscriber, stream: str) -> LeasePlaces | None:
        known = self._places.get((subscriber.namespace, subscriber.channel))
        return known if known is not None and known.stream == stream else None

    def without_tokens(self, place: Key) -> Mapping[str, str]:
        """Why there are no tokens for a channel's consumers, by consumer."""
        return self._without.get(place, {})

    def _sender(self, subscriber: Subscriber, lease: Lease) -> SenderIdentity | None:
        known = self._known(subscriber, lease.stream)
        return (known.identities or {}).get(lease.consumer) if known is not None else None

    async def _with_tokens(self, subscriber: Subscriber, lease: Lease) -> Lease:
        """The lease with the tokens that its consumer's addresses ask for, by the word of its channel alone.

        Raises:
            Unavailable: there are none, and so no lease: its events wait.
        """
        sender = self._sender(subscriber, lease)
        if sender is None or self._tokens is None:
            raise Unavailable(f"no identity is known for {lease.consumer}: the status of its channel says why")
        seconds = lease.seconds + START_SLACK + _STAGES * subscriber.policy.timeout.total_seconds()
        try:
            tokens = await self._tokens.of(sender, seconds)
        except Unavailable as error:
            self._note_tokens(subscriber, lease, str(error))
            raise
        self._note_tokens(subscriber, lease, "")
        return replace(lease, tokens=tokens)

    def _note_tokens(self, subscriber: Subscriber, lease: Lease, trouble: str) -> None:
        """Have the status tell why there are no tokens, or that there are again."""
        place = (subscriber.namespace, subscriber.channel)
        told = self._without.setdefault(place, {})
        if told.get(lease.consumer, "") != trouble:
            if trouble:
                told[lease.consumer] = trouble
            else:
                del told[lease.consumer]
            self._trouble(lease.stream, LOOK_SECONDS)

    def _refuse_tokens(self, subscriber: Subscriber, lease: Lease, outdated: Collection[str]) -> None:
        sender = self._sender(subscriber, lease)
        for audience in outdated:
            if sender is not None and self._tokens is not None and audience in lease.tokens:
                self._tokens.refused(sender, audience, lease.tokens[audience].text)

    async def tell_of_backlogs(self) -> None:
        """Have channels reconciled whose last answer does not say that events wait; never returns.

        No other part reports them: a channel at rest is not looked at, and events that wait for a `forward` that is
        down are no trouble of NATS.
        """
        while True:
            await asyncio.sleep(BACKLOG_SECONDS)
            for place in self.untold_backlogs():
                for listener in self.on_trouble:
                    listener(place, 0.0)

    def untold_backlogs(self) -> list[Key]:
        """Channels whose last answer says that no event waits, though one does at the second look in a row."""
        rows = self.scaler.stats()["consumers"]
        waiting = {name.partition("/")[0] for name, row in rows.items() if row["pending"]}
        places = set().union(*(self._channels.get(stream, ()) for stream in waiting)) & self._quiet
        told, self._suspected = places & self._suspected, places
        return sorted(told)

    async def hold(self, subscriber: Subscriber, lease: Lease, meanwhile: Meanwhile) -> LeaseAnswer:
        """Hold one lease at the `forward` of the subscriber's channel; a `LeaseOpener`."""
        url = self._forward(subscriber, lease.stream, lease.consumer).url
        if subscriber.audiences:
            lease = await self._with_tokens(subscriber, lease)
        try:
            answer = await self._open_lease(url, lease, meanwhile)
            if lease.tokens:
                self._refuse_tokens(subscriber, lease, answer.outdated)
            return answer
        except Refused as error:
            if error.status == 401:
                # The shared token was rotated: the hook has to tell the function anew whom it may trust.
                self._trouble(lease.stream, REPAIR_SECONDS)
            raise

    def _repair(self, stream: str) -> None:
        """A stream or consumer that reconcile had made is missing; until it has made one, it tries by itself."""
        for place in self._channels.get(stream, set()) & self._stored:
            if asyncio.get_running_loop().time() > self._put_at[place] + REPAIR_SECONDS:
                words = "stream or consumer is missing, reconciling"
                _log.warning(words, channel="/".join(place), stream=stream)
            self._have_reconciled(place, REPAIR_SECONDS)

    def _trouble(self, stream: str, seconds: float) -> None:
        for place in self._channels.get(stream, ()):
            self._have_reconciled(place, seconds)

    def _have_reconciled(self, place: Key, seconds: float) -> None:
        """Have the channel reconciled, but not for each event, and not while a missing stream is being made."""
        wait = max(0.0, self._put_at[place] + seconds - asyncio.get_running_loop().time())
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

"""Makes an EventType for each kind of events that a `receive` tells of, while Knative's flag asks for it (ADR 067).

What is told is advice, and most of it from strangers: producers choose types and sources. So a channel gets so many
EventTypes and no more, the API server so many requests a second, and the channels take turns: one that floods delays no
other by more than its turn. A `receive` speaks for the channels that it serves: those of its namespace, or all if it
is among the shared ones. None is made twice, nor beside one that says the same and is somebody else's.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.core import names
from headrace.core.errors import HeadraceError, Refused, Unavailable
from headrace.core.event import event_kinds
from headrace.core.event.event_kinds import EventKind
from headrace.io.nats import hints
from headrace.io.nats.client import Client
from headrace.io.process import log
from headrace.io.process.trouble import Trouble
from headrace_operator.channels import channel_object, event_type
from headrace_operator.kube.api import Body, Conflict, KubeApi, NamespaceGoing, NoRight
from headrace_operator.kube.kinds import Discovery, Key, Kind, key
from headrace_operator.kube.watch import Cache, Watch

SECONDS_EACH = 0.1
# The pause after a request that the API server did not answer, or that it refuses to us altogether.
AGAIN_SECONDS, NO_RIGHT_SECONDS = 2.0, 60.0
LOOK_AGAIN_SECONDS = 60.0
MOST_WAITING_EACH = 100
MADE, LEFT_OUT, REFUSED = "made", "left_out", "refused"
RIGHTS = "the operator may not {}: give it the rights of docs/rbac.md, or turn eventtype-auto-create off"

_log = log.get("event-types")


@dataclass(frozen=True, slots=True)
class Places:
    """Whose functions may speak for which channels.

    Attributes:
        key_of: the key by which the functions of a namespace prove what they say.
        shared: the namespace of the functions that serve the channels of all.
    """

    key_of: Callable[[str], bytes]
    shared: Callable[[], str]


class EventTypes:
    """The EventTypes of all channels.

    Attributes:
        counts: kinds by what became of them: an EventType was made, refused by the API server, or the kind left out.
    """

    def __init__(
        self,
        api: KubeApi,
        discovery: Discovery,
        channels: Cache,
        tell: Callable[..., None],
        places: Places,
        *,
        namespace: str,
        most: int,
    ) -> None:
        """Args:
        tell: makes a Kubernetes Event of a channel, a reason and words.
        namespace: the one to look at; empty for all.
        most: EventTypes of one channel.
        """
        self.counts = Counter(dict.fromkeys((MADE, LEFT_OUT, REFUSED), 0))
        self._api = api
        self._discovery = discovery
        self._channels = channels
        self._tell = tell
        self._places = places
        self._namespace = namespace
        self._most = most
        self._subjects: dict[str, Key] = {}
        self._waiting: OrderedDict[Key, dict[str, EventKind]] = OrderedDict()
        self._filled = asyncio.Event()
        self._asked_for, self._given_up = asyncio.Event(), asyncio.Event()
        self._trouble = Trouble()
        self._seen: _Seen | None = None
        channels.listeners.append(self._on_channel)

    def ask_for(self, wanted: bool) -> None:
        """Has Knative's flag been set, or taken back? The EventTypes that are there stay."""
        set_, cleared = (self._asked_for, self._given_up) if wanted else (self._given_up, self._asked_for)
        set_.set()
        cleared.clear()

    async def run(self, client: Client) -> None:
        """Make what is told of until cancelled; while nobody asks for it, hear and watch nothing."""
        while True:
            await self._asked_for.wait()
            kind = await self._kind()
            if kind is None:
                await asyncio.sleep(LOOK_AGAIN_SECONDS)
                continue
            _log.info("EventTypes are made of new kinds of events, as Knative's flag asks")
            async with asyncio.TaskGroup() as tasks:
                serving = tasks.create_task(self._serve(client, kind), name="event-types")
                await self._given_up.wait()
                serving.cancel()
            _log.info("no EventType is made any more, as Knative's flag asks")
            self._waiting.clear()
            self._seen = None

    def heard(self, subject: str, data: bytes) -> None:
        """Queue the new kinds that a message of some `receive` tells of."""
        place = subject.removeprefix(names.kinds_subject(""))
        news = event_kinds.read(data, place, self._places.key_of(place))
        if news is None:
            _log.debug("a message about kinds of events has no proof of its place", place=place[:63])
            return
        for told, kinds in news.kinds.items():
            if (channel := self._channel(told, place)) is not None:
                for kind in kinds:
                    self._add(channel, kind)
        for told, count in news.left_out.items():
            if (channel := self._channel(told, place)) is not None:
                self._leave_out(channel, count, "there are more new kinds of events in a second than are told of")

    async def _kind(self) -> Kind | None:
        try:
            kind = await self._discovery.by_kind(event_type.EVENTING, event_type.EVENT_TYPE)
        except (Unavailable, Refused) as error:
            self._complain(error)
            return None
        if kind is None:
            self._complain(Unavailable(f"the cluster does not serve {event_type.EVENTING} {event_type.EVENT_TYPE}"))
        return kind

    async def _serve(self, client: Client, kind: Kind) -> None:
        watch = Watch(self._api, kind, namespace=self._namespace)
        self._seen = _Seen(watch)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(watch.run(), name="watch-event-types")
            tasks.create_task(hints.hear(client, names.kinds_subject("*"), self.heard, lambda: None), name="kinds")
            tasks.create_task(self._make_for_ever(kind), name="make")

    def _channel(self, subject: str, place: str) -> Body | None:
        """The channel of a subject, if that place may speak for it."""
        found = self._subjects.get(subject)
        if found is None or place not in (found[0], self._places.shared()):
            return None
        channel = self._channels.get(found)
        ours = channel is not None and not channel_object.is_going(channel) and not event_type.is_brokers(channel)
        return channel if ours else None

    def _add(self, channel: Body, kind: EventKind) -> None:
        seen, place = self._seen, key(channel)
        if seen is None or seen.has(place, kind):
            return
        if seen.watch.refused:
            self._tell(channel, "EventTypesNotMade", RIGHTS.format("list EventTypes"), warning=True)
            return
        waiting = self._waiting.setdefault(place, {})
        called = event_type.name(place, kind)
        if called in waiting:
            return
        if seen.count(place) + len(waiting) >= self._most:
            rule = f"the channel has {self._most} EventTypes, as many as OPERATOR_EVENT_TYPES lets it"
            self._leave_out(channel, 1, rule)
        elif len(waiting) >= MOST_WAITING_EACH:
            self._leave_out(channel, 1, "there are more new kinds of events than EventTypes are made")
        else:
            waiting[called] = kind
            self._filled.set()

    def _leave_out(self, channel: Body, count: int, why: str) -> None:
        self.counts[LEFT_OUT] += max(0, count)
        words = f"Kinds of events get no EventType, since {why}. Do producers make up types or sources?"
        self._tell(channel, "EventTypesLeftOut", words, warning=True)

    async def _make_for_ever(self, kind: Kind) -> None:
        assert self._seen is not None
        await self._seen.watch.cache.wait_until_listed()
        while True:
            if not self._waiting:
                self._filled.clear()
                await self._filled.wait()
            place, waiting = self._waiting.popitem(last=False)
            if waiting:
                called = next(iter(waiting))
                pause = await self._make(kind, place, waiting.pop(called))
                if waiting:
                    self._waiting[place] = waiting
                await asyncio.sleep(pause)

    async def _make(self, kind: Kind, place: Key, event_kind: EventKind) -> float:
        """Make one EventType; returns the seconds to wait before the next."""
        channel = self._channels.get(place)
        if channel is None or self._seen is None or self._seen.has(place, event_kind):
            return 0.0
        try:
            made = await self._api.create(kind.path(place[0]), event_type.body(channel, event_kind))
        except Conflict:
            # It is there already, and the watch is late.
            return SECONDS_EACH
        except NoRight as error:
            self._complain(error)
            self._tell(channel, "EventTypesNotMade", RIGHTS.format("create EventTypes"), warning=True)
            return NO_RIGHT_SECONDS
        except Refused as error:
            self.counts[REFUSED] += 1
            if not isinstance(error, NamespaceGoing):
                self._complain(error)
            return SECONDS_EACH
        except Unavailable as error:
            self._complain(error)
            return AGAIN_SECONDS
        self._trouble.over()
        self._seen.watch.cache.note(made)
        self.counts[MADE] += 1
        return SECONDS_EACH

    def _complain(self, error: HeadraceError) -> None:
        write = _log.warning if self._trouble.note(str(error)) else _log.debug
        write("EventTypes can't be made", error=str(error))

    def _on_channel(self, old: Body | None, new: Body | None) -> None:
        if old is None and new is not None:
            self._subjects[names.channel(*key(new)).subject] = key(new)
        elif old is not None and new is None:
            self._subjects.pop(names.channel(*key(old)).subject, None)
            self._waiting.pop(key(old), None)


class _Seen:
    """The EventTypes that there are for channels: how many of each, and of which kinds."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self._counts: Counter[Key] = Counter()
        self._kinds: Counter[tuple[Key, str, str]] = Counter()
        watch.cache.keeps = lambda one: event_type.told(one) is not None
        watch.cache.trim = lambda one: one.pop("status", None)
        watch.cache.listeners.append(self._on_change)

    def has(self, place: Key, kind: EventKind) -> bool:
        return (place, kind.type, kind.source) in self._kinds

    def count(self, place: Key) -> int:
        return self._counts[place]

    def _on_change(self, old: Body | None, new: Body | None) -> None:
        for body, by in ((old, -1), (new, 1)):
            told: Any = event_type.told(body) if body is not None else None
            if told is not None:
                self._counts[told[0]] += by
                self._kinds[told] += by
                if not self._kinds[told]:
                    del self._kinds[told]
                if not self._counts[told[0]]:
                    del self._counts[told[0]]

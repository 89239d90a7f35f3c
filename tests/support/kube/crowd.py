"""Many Subscriptions of one channel that come, change and go while events flow, and a ledger of who got what.

It does not matter here who writes `spec.subscribers`, a stand-in or Knative's own controller. The ledger holds three
rules. A Subscription that is there gets each event exactly once that was sent since it was first Ready, whatever
happened to its entry. None ever gets an event twice, unless NATS handed it out again, since `forward` got no processor
time for longer than the ack wait, and `forward` has counted that. And one that has gone, or was at another address,
gets nothing any more once all is settled.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.support.http.subscriber import Place, Subscriber
from tests.support.kube.kube_api import CHANNELS, Api
from tests.support.kube.subscription_controller import SUBSCRIPTIONS
from tests.support.nats.streams import Channel, Nats
from tests.support.programs.scraping import scrape
from tests.support.waiting import until

LOOK_SECONDS = 0.1
EVENT_SECONDS = 0.2
PATIENCE = 120.0
FORWARDED = "headrace_forward_events_total"


@dataclass
class Member:
    """Whoever bears one name, under whichever uid.

    Attributes:
        places: all addresses that it has had, the newest last.
        ready_at: when it was first seen Ready, on the monotonic clock; None: not yet.
        stays: it was not deleted for good.
    """

    name: str
    places: list[Place]
    ready_at: float | None = None
    stays: bool = True

    def got(self) -> Counter[str]:
        """Ids of all events, over all addresses."""
        return Counter(itertools.chain.from_iterable(place.ids for place in self.places))


@dataclass
class Crowd:
    """The Subscriptions of a channel.

    Attributes:
        channel: the reference that their `spec.channel` is; to one of our kind.
        address: where events are POSTed.
        metrics: port on which `forward` tells of itself.
        sent: for each event that was answered with 202, when its POST began.
    """

    api: Api
    namespace: str
    channel: Mapping[str, str]
    address: str
    subscriber: Subscriber
    metrics: int
    members: dict[str, Member] = field(default_factory=dict)
    sent: dict[str, float] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return SUBSCRIPTIONS.format(namespace=self.namespace)

    @property
    def channel_path(self) -> str:
        return f"{CHANNELS.format(namespace=self.namespace)}/{self.channel['name']}"

    @property
    def stream(self) -> str:
        return Channel(self.namespace, self.channel["name"]).stream

    async def join(self, name: str) -> None:
        """A Subscription of that name is made."""
        self.members[name] = Member(name, [self.subscriber.place()])
        (await self.api.create(self.path, self._body(name))).unwrapped()

    async def move(self, name: str) -> None:
        """Its subscriber gets another address."""
        member = self.members[name]
        member.places.append(self.subscriber.place())
        spec = {"spec": {"subscriber": {"uri": member.places[-1].uri}}}
        (await self.api.merge(f"{self.path}/{name}", spec)).unwrapped()

    async def leave(self, name: str) -> None:
        """It is deleted."""
        self.members[name].stays = False
        (await self.api.delete(f"{self.path}/{name}")).unwrapped()

    async def come_again(self, name: str) -> None:
        """It is deleted and made again at once, with the same address, as the Subscription of a changed Trigger is."""
        (await self.api.delete(f"{self.path}/{name}")).unwrapped()

        async def is_made() -> bool:
            answer = await self.api.create(self.path, self._body(name))
            assert answer.accepted or answer.status == 409, answer.message
            return answer.accepted

        await until(f"{name} is made again", is_made, PATIENCE)

    async def flow(self, prefix: str, count: int = 0) -> None:
        """Send events, one after the other; `count` zero: until cancelled."""
        numbers = range(count) if count else itertools.count()
        async with aiohttp.ClientSession() as session:
            for number in numbers:
                event, began = f"{prefix}-{number}", time.monotonic()
                headers = {"ce-specversion": "1.0", "ce-id": event, "ce-source": "/crowd", "ce-type": "order"}
                async with session.post(self.address, data=b"{}", headers=headers) as answer:
                    assert answer.status == 202, await answer.text()
                self.sent[event] = began
                await asyncio.sleep(0 if count else EVENT_SECONDS)

    async def watch(self) -> None:
        """Note who is Ready for the first time, until cancelled."""
        while True:
            await self._look()
            await asyncio.sleep(LOOK_SECONDS)

    async def all_ready(self, names: Iterable[str]) -> None:
        """Wait until each of them was Ready once."""
        await until("they are Ready", lambda: all(self.members[name].ready_at for name in names), PATIENCE)

    async def settled(self) -> None:
        """Wait until Subscriptions, entries, and the channel's word about them agree, and nothing else is there."""

        async def is_so() -> bool:
            found = await self._look()
            channel = (await self.api.get(self.channel_path)).unwrapped()
            there = {one["metadata"]["uid"]: one["metadata"]["generation"] for one in found}
            entries = (channel.get("spec") or {}).get("subscribers") or ()
            rows = (channel.get("status") or {}).get("subscribers") or ()
            return (
                {one["metadata"]["name"] for one in found} == {one.name for one in self.members.values() if one.stays}
                and all(is_ready(one) for one in found)
                and sorted((one["uid"], one["generation"]) for one in entries) == sorted(there.items())
                and sorted((one["uid"], one["observedGeneration"], one["ready"]) for one in rows)
                == sorted((uid, generation, "True") for uid, generation in there.items())
            )

        await until("all is settled", is_so, PATIENCE)

    async def ledger_is_full(self) -> None:
        """Wait until nobody lacks an event, then hold that nobody got one twice that was not handed out again."""
        try:
            await until("everybody has everything", lambda: not self.missing(), PATIENCE)
        except AssertionError as late:
            raise AssertionError(f"{late}: {self.missing()}") from late
        twice = self.twice()
        if twice:
            print(f"\nseen twice: {twice}")
        counted = {name: await self.handed_out_again(name) for name in twice}
        assert {name: events for name, events in twice.items() if events.total() > counted[name]} == {}, counted

    async def handed_out_again(self, name: str) -> float:
        """How many events NATS has handed out again to a Subscription of that name, as `forward` has counted them."""
        found = await scrape(self.metrics)
        labels = {"channel": self.channel["name"], "subscription": name, "outcome": "redelivered"}
        return found.value(FORWARDED, **labels) if found.has(FORWARDED, **labels) else 0

    def missing(self) -> dict[str, list[str]]:
        """What those who stay should have got, and have not."""
        found: dict[str, list[str]] = {}
        for member in self.members.values():
            if member.stays and member.ready_at is not None:
                got = member.got()
                due = [event for event, began in self.sent.items() if began > member.ready_at and event not in got]
                found |= {member.name: due} if due else {}
        return found

    def twice(self) -> dict[str, Counter[str]]:
        """What anybody got more than once, those who have left included, and how many times too often."""
        found = {one.name: one.got() - Counter(set(one.got())) for one in self.members.values()}
        return {name: events for name, events in found.items() if events}

    def strays(self, prefix: str) -> dict[str, list[str]]:
        """Events of that prefix that came to whoever has left, or to a former address."""
        found: dict[str, list[str]] = {}
        for one in self.members.values():
            for place in one.places[:-1] if one.stays else one.places:
                events = [event for event in place.ids if event.startswith(prefix)]
                found |= {one.name: events} if events else {}
        return found

    async def _look(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.api.get(self.path)).unwrapped()["items"]
        now = time.monotonic()
        for one in found:
            member = self.members.get(one["metadata"]["name"])
            if member is not None and member.ready_at is None and is_ready(one):
                member.ready_at = now
        return found

    def _body(self, name: str) -> dict[str, Any]:
        return {
            "apiVersion": "messaging.knative.dev/v1",
            "kind": "Subscription",
            "metadata": {"name": name},
            "spec": {"channel": dict(self.channel), "subscriber": {"uri": self.members[name].places[-1].uri}},
        }


async def come_change_and_go(crowd: Crowd, nats_url: str, *works: Coroutine[Any, Any, None]) -> None:
    """Fifty join; then, all at once, a third move, a third leave, others come again, and ten more join.

    Args:
        works: what is to run meanwhile.
    """
    names, newcomers = [f"s{number}" for number in range(50)], [f"n{number}" for number in range(10)]
    moving, leaving, again = names[:15], names[15:30], names[30:40]
    async with beside(*works, crowd.watch(), crowd.flow("early")):
        await asyncio.gather(*map(crowd.join, names))
        await crowd.all_ready(names)
        births = await consumers(nats_url, crowd.stream)
        await asyncio.gather(
            *map(crowd.move, moving),
            *map(crowd.leave, leaving),
            *map(crowd.come_again, again),
            *map(crowd.join, newcomers),
        )
        await asyncio.gather(*map(crowd.move, moving[:5]), *map(crowd.come_again, again[:5]))
        await crowd.settled()
    await crowd.ledger_is_full()

    # Who has gone and every former address get nothing of what is sent from now on.
    await crowd.flow("late", 20)
    await crowd.ledger_is_full()
    assert crowd.strays("late") == {}

    # Each has the consumer that it was born with, and those of the others go.
    async def are_gone() -> bool:
        return (await consumers(nats_url, crowd.stream)).keys() == {
            one.name for one in crowd.members.values() if one.stays
        }

    await until("consumers of Subscriptions that are gone are gone", are_gone, PATIENCE)
    after = await consumers(nats_url, crowd.stream)
    old = set(names) - set(leaving)
    assert {name: after[name] for name in old} == {name: births[name] for name in old}


async def consumers(nats_url: str, stream: str) -> dict[str, tuple[str, str]]:
    """Name and birth of the consumer of each Subscription, by the Subscription's name."""
    found: dict[str, tuple[str, str]] = {}
    async with Nats(nats_url) as nats:
        while True:
            answer = await nats.call(f"CONSUMER.LIST.{stream}", {"offset": len(found)})
            for one in answer["consumers"]:
                found[one["config"]["metadata"]["headrace.dev/subscription"]] = (one["name"], one["created"])
            if not answer["consumers"] or len(found) >= answer["total"]:
                return found


def is_ready(found: Mapping[str, Any]) -> bool:
    """Does it say so of its present generation?"""
    status = found.get("status") or {}
    conditions = {one["type"]: one["status"] for one in status.get("conditions") or ()}
    return status.get("observedGeneration") == found["metadata"]["generation"] and conditions.get("Ready") == "True"


@asynccontextmanager
async def beside(*works: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Let coroutines run while the block does; what one of them fails with is raised at its end."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task

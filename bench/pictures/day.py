"""A day of the shop, in five minutes: what comes in, and what goes wrong.

Each act is at a second of the run and has a sentence, which the pictures show beside its number.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import aiohttp

from bench.pictures.screens import Screens
from bench.pictures.shop import NAMESPACE, Shop
from tests.support.http.subscriber import Answer, Received, Say

SECONDS = 300
TICK = 0.1
# So many requests may be on their way; what would be more is not sent.
MOST_AT_ONCE = 400
REPLY = {
    "ce-specversion": "1.0",
    "ce-source": "/pricing",
    "ce-type": "shop.invoice",
    "content-type": "application/json",
}


@dataclass(frozen=True)
class Act:
    """Something that happens; `said` is empty for the end of another."""

    at: float
    said: str
    do: Callable[[], Awaitable[None] | None]


class Day:
    """One run over an open shop; `sent` counts requests by the status that they were answered with."""

    def __init__(self, shop: Shop, screens: Screens) -> None:
        self._shop = shop
        self._screens = screens
        self._ids = itertools.count(1)
        self._random = random.Random(7)
        self._broken = False
        self._on_their_way = 0
        self.sent: dict[int, int] = {}
        self.acts = sorted(self._acts(), key=lambda act: act.at)
        self._open()

    async def live(self) -> None:
        """All of it, second by second."""
        loop = asyncio.get_running_loop()
        began, due = loop.time(), 0.0
        waiting = list(self.acts)
        owed: dict[str, float] = {}
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
            asyncio.TaskGroup() as group,
        ):
            while (now := loop.time() - began) < SECONDS:
                while waiting and waiting[0].at <= now:
                    group.create_task(_done(waiting.pop(0)))
                for channel, rate in self._rates(now).items():
                    owed[channel] = owed.get(channel, 0.0) + rate * TICK
                    while owed[channel] >= 1.0:
                        owed[channel] -= 1.0
                        if self._on_their_way < MOST_AT_ONCE:
                            self._on_their_way += 1
                            group.create_task(self._send(session, channel))
                due += TICK
                await asyncio.sleep(max(0.0, began + due - loop.time()))

    def _rates(self, now: float) -> Mapping[str, float]:
        """Events in a second, by channel: two waves, the second one higher."""
        wave = 22 + 18 * math.sin(now / 24) + (30 * math.exp(-(((now - 170) / 35) ** 2)))
        return {
            "orders": max(2.0, wave),
            "clicks": 10.0,
            "returns": 3.0 + 2.0 * math.sin(now / 15),
        }

    def _acts(self) -> list[Act]:
        return [
            Act(45, "billing answers 503", lambda: self._says("billing", Say(503, delay=0.02))),
            Act(80, "", lambda: self._says("billing", Say(202, delay=0.03))),
            Act(95, "a producer forgets ce-type", lambda: self._breaks(True)),
            Act(115, "", lambda: self._breaks(False)),
            Act(125, "ledger needs 6 s for an invoice", lambda: self._says("ledger", Say(202, delay=6.0))),
            Act(185, "ledger is quick again", lambda: self._says("ledger", Say(202, delay=0.01))),
            Act(175, "", lambda: self._screens.take("while ledger is slow")),
            Act(150, "counter needs 4 s for a click", lambda: self._says("counter", Say(202, delay=4.0))),
            Act(215, "nats-server is away for 5 s", self._nats_away),
            Act(245, "another forward takes over", lambda: asyncio.to_thread(self._another_forward)),
            Act(262, "", lambda: self._screens.take("before the replay")),
            Act(270, "audit is mended, its parked events are replayed", self._replay),
        ]

    def _open(self) -> None:
        places = self._shop.places
        self._says("shipping", Say(202, delay=0.005))
        self._says("billing", Say(202, delay=0.03))
        self._says("ledger", Say(202, delay=0.01))
        self._says("counter", Say(202, delay=0.02))
        places["pricing"].decides(self._prices)
        places["audit"].decides(lambda got: Say(400) if got.event["type"] == "shop.order.test" else Say(202))
        places["letters"].says(Say(202, delay=0.01))

    def _says(self, name: str, answer: Answer) -> None:
        self._shop.places[name].says(answer)

    def _breaks(self, broken: bool) -> None:
        self._broken = broken

    def _prices(self, got: Received) -> Answer:
        """Each order has an invoice, as the reply."""
        delay = self._random.lognormvariate(-3.6, 0.7)
        return Say(200, {**REPLY, "ce-id": f"invoice-{got.event['id']}"}, b'{"total": 42}', delay)

    async def _nats_away(self) -> None:
        await asyncio.to_thread(self._shop.nats.stop)
        await asyncio.sleep(5.0)
        await asyncio.to_thread(self._shop.nats.start)

    def _another_forward(self) -> None:
        forward = self._shop.functions["forward"]
        forward.stop()
        forward.start()

    async def _replay(self) -> None:
        self._says("audit", Say(202))
        await self._screens.take("the replay")

    async def _send(self, session: aiohttp.ClientSession, channel: str) -> None:
        number = next(self._ids)
        test = channel == "orders" and number % 60 == 0
        # Some producers send an event twice.
        id = number - 1 if number % 40 == 0 else number
        headers = {
            "ce-specversion": "1.0",
            "ce-id": str(id),
            "ce-source": "/web",
            "ce-type": "shop.order.test" if test else f"shop.{channel.removesuffix('s')}",
            "content-type": "application/json",
        }
        if self._broken and number % 4 == 0:
            del headers["ce-type"]
        url = f"{self._shop.functions['receive'].url}/{NAMESPACE}/{channel}"
        body = json.dumps({"items": number % 7 + 1, "customer": f"c-{number % 90}"}).encode()
        try:
            async with session.post(url, data=body, headers=headers) as answer:
                await answer.read()
                self.sent[answer.status] = self.sent.get(answer.status, 0) + 1
        finally:
            self._on_their_way -= 1


async def _done(act: Act) -> None:
    done = act.do()
    if done is not None:
        await done

"""From a channel of another kind to one of ours, as docs/migration.md has it: the old one drains while producers move.

The old channel is one of ours, too: its senders and receivers could not tell it from one of another kind.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

from tests.support.http.subscriber import Subscriber
from tests.support.laptop.cli import run as cli
from tests.support.laptop.laptop import Run, channel, emit, subscription
from tests.support.waiting import until

pytest_plugins = ["tests.support.laptop.laptops"]

OLD = Path(__file__).parents[2] / "docs/convert/in-memory.yaml"


async def test_producers_move_while_events_flow_and_each_comes_once(run: Run, subscriber: Subscriber) -> None:
    billing = subscriber.place()
    old = OLD.read_text().replace("http://billing.shop.svc.cluster.local/", billing.uri)
    new = await asyncio.to_thread(cli, "convert", "-f", "-", "--suffix=-js", "--strict", stdin=old.encode())
    before = (channel("legacy"), subscription("billing", billing.uri, of="legacy"))
    laptop = run(*before, options=("--idle-seconds", "1"))
    await asyncio.to_thread(laptop.wait_until_ready)
    sent: list[str] = []
    to = "/default/legacy"
    flows = True

    async def produce() -> None:
        while flows:
            name = f"{len(sent)}{to}"
            [reply] = await emit(laptop, name, to=to)
            assert reply.status == 202
            sent.append(name)

    producer = asyncio.create_task(produce())
    try:
        await until("events go through the old channel", lambda: len(billing.ids) > 10, 30)
        # Steps 1 and 2: the new channel and its Subscription, beside the old ones.
        laptop.reload(*before, new.ok().out)
        await until("the new channel is served", lambda: _is_served(laptop.state), 30)
        # Step 3: the producers' address.
        to = "/default/orders"
        moved = len(sent)
        await until("events go through the new channel", lambda: len(sent) > moved + 10, 30)
    finally:
        flows = False
        await producer
    # Step 4: drained, the old ones go.
    await billing.wait(len(sent), 60)
    laptop.reload(new.out)
    await until("the old channel is gone", lambda: not _names(laptop.state, "legacy"), 30)

    assert sum(name.endswith("orders") for name in sent) > 5
    assert sum(name.endswith("legacy") for name in sent) > 5
    assert Counter(billing.ids) == Counter(sent)


def _is_served(state: object) -> bool:
    return _names(state, "orders") and _names(state, "billing-js")


def _names(state: object, name: str) -> bool:
    return name in str(state)

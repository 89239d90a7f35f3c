"""The measuring of a channel: many events as fast as it takes them, then how fast its Subscriptions settle them."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from statistics import quantiles
from typing import Any

from headrace.core.delivery.order_spec import DeliveryOrder, OrderSpec
from headrace.core.event.event import Event, make_event
from headrace.core.plural import counted
from headrace_cli.access.session import Session
from headrace_cli.catalog.channels import CatalogChannel
from headrace_cli.catalog.subscriptions import CatalogSubscription, subscriptions
from headrace_cli.events.send import Send, SendRate
from headrace_cli.view import units
from headrace_cli.view.output import Column, column, columns, table

TYPE = "headrace.bench"
LOOK_SECONDS = 0.1

Step = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Load:
    """The events that a bench sends.

    Attributes:
        size: bytes of data of each event.
        keys: how many different values each attribute in `keyed` has.
        parallel: how many events are on their way at once; rate: events per second at most, None without a limit.
    """

    events: int
    size: int
    keys: int
    keyed: tuple[str, ...]
    parallel: int
    rate: float | None


@dataclass(frozen=True, slots=True)
class PublishStats:
    """How fast the channel took the events; `latencies` are those of single events, in seconds."""

    events: int
    seconds: float
    latencies: list[float]


def ordering_attributes(served: Sequence[CatalogSubscription]) -> tuple[str, ...]:
    """The attributes by which Subscriptions order their events."""
    orders = [one.subscriber.order if one.subscriber is not None else OrderSpec() for one in served]
    return tuple(sorted({order.key for order in orders if order.kind is DeliveryOrder.BY_KEY}))


async def publish(way: AbstractAsyncContextManager[Send], load: Load, step: Step) -> PublishStats:
    """Send the events; `step` is called for each one that the channel has taken."""
    run, data = secrets.token_hex(4), os.urandom(load.size)
    numbers = iter(range(load.events))
    pace, latencies = SendRate(load.rate), list[float]()

    async with way as send_one:

        async def work() -> None:
            # All senders share one iterator: each takes the next number.
            for number in numbers:
                await pace.turn()
                began = time.perf_counter()
                await send_one(event(run, number, data, dict.fromkeys(load.keyed, number % load.keys)))
                latencies.append(time.perf_counter() - began)
                step()

        began = time.monotonic()
        async with asyncio.TaskGroup() as workers:
            for _ in range(load.parallel):
                workers.create_task(work())
        return PublishStats(len(latencies), time.monotonic() - began, latencies)


async def settle(
    session: Session, found: CatalogChannel, events: int, began: float, wait: float, step: Step
) -> list[dict[str, Any]]:
    """Measure for each Subscription the time from the first publish until it has settled everything.

    Args:
        began: when the first event was published, by the monotonic clock.
        wait: seconds after which the remaining events are given up.
        step: called for each Subscription that is done.
    """
    last = int((await session.api.call(f"STREAM.INFO.{found.stream}"))["state"]["last_seq"])
    deadline = time.monotonic() + wait
    done: dict[str, dict[str, Any]] = {}
    while True:
        for one in await subscriptions(session.admin, found):
            if one.state != "ready" or str(one.ref) in done:
                continue
            over = one.settled_to >= last or one.pending + one.unacked == 0
            if not over and time.monotonic() <= deadline:
                break
            left, seconds = 0 if over else one.pending + one.unacked, time.monotonic() - began
            count = max(0, events - left)
            done[str(one.ref)] = {
                "subscription": str(one.ref),
                "settled": count,
                "pending": left,
                "seconds": round(seconds, 3),
                "perSecond": round(count / seconds, 1),
            }
            step()
        else:
            return list(done.values())
        await asyncio.sleep(LOOK_SECONDS)


def event(run: str, number: int, data: bytes, keys: Mapping[str, int]) -> Event:
    """One event of a run.

    Args:
        keys: by attribute; id and time are no keys, since each event has its own.
    """
    attributes = {
        "specversion": "1.0",
        "id": f"{run}-{number}",
        "source": f"/kn-jetstream/bench/{run}",
        "type": TYPE,
        "datacontenttype": "application/octet-stream",
    }
    for name, key in keys.items():
        if name in ("source", "type"):
            attributes[name] += f"/{key}"
        elif name != "time":
            attributes.setdefault(name, f"{run}-{key}")
    return make_event(attributes, data)


def result(published: PublishStats, load: Load, settled: list[dict[str, Any]]) -> dict[str, Any]:
    """The numbers of one run."""
    rate = published.events / max(published.seconds, 1e-9)
    cuts = quantiles(published.latencies, n=100) if len(published.latencies) > 1 else published.latencies * 99
    return {
        "published": {
            "events": published.events,
            "seconds": round(published.seconds, 3),
            "perSecond": round(rate, 1),
            "bytesPerSecond": round(rate * load.size),
            "keys": dict.fromkeys(load.keyed, load.keys),
            "latencyMs": {f"p{at}": round(cuts[at - 1] * 1000, 2) for at in (50, 90, 99)},
        },
        "settled": settled,
    }


_COLUMNS: tuple[Column, ...] = (
    *columns("SUBSCRIPTION SETTLED"),
    column("LEFT", "pending"),
    column("SECONDS"),
    column("PER SECOND", "perSecond"),
)


def text(numbers: dict[str, Any]) -> str:
    """The numbers of one run, for people."""
    published = numbers["published"]
    latency = ", ".join(f"{name} {value} ms" for name, value in published["latencyMs"].items())
    head = (
        f"published {counted(published['events'], 'event')} in {published['seconds']} s: {published['perSecond']}/s, "
        f"{units.size(published['bytesPerSecond'])}/s, acknowledged after {latency}\n"
    )
    head += "".join(f"with {counted(count, 'key')} in {name}\n" for name, count in published["keys"].items())
    return head + table(_COLUMNS, numbers["settled"])

"""What `bench` does: many events to a channel as fast as it takes them, then how fast its Subscriptions settle them."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from statistics import quantiles
from typing import Any

import click

from headrace.core import names
from headrace.core.delivery.order_spec import DeliveryOrder, OrderSpec
from headrace.core.event.event import Event, make_event
from headrace.core.plural import counted
from headrace_cli.access.session import Session
from headrace_cli.catalog.channels import Channel, channel
from headrace_cli.catalog.names import ref
from headrace_cli.catalog.subscriptions import Subscription, subscriptions
from headrace_cli.commands.params import Given
from headrace_cli.commands.running import confirmed, tell
from headrace_cli.events import send
from headrace_cli.events.send import Mode, Pace, Send
from headrace_cli.view import units
from headrace_cli.view.output import Column, table, text_of
from headrace_cli.view.progress import Progress

TYPE = "headrace.bench"
LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Published:
    """How fast events were taken; `latencies` are of the single ones, in seconds."""

    events: int
    seconds: float
    latencies: list[float]


async def bench(session: Session, given: Given) -> int:
    found = await channel(session.api, ref(given["channel"], given["namespace"]))
    served = [one for one in await subscriptions(session.admin, found) if one.state == "ready"]
    waits = bool(served) and not given["publish_only"]
    to = ", ".join(str(one.ref) for one in served) or "nobody"
    count, size = given["events"], given["size"]
    question = (
        f"{counted(count, 'event')} of type {TYPE} with {units.size(size)} to {found.ref}, and so to {to}. Send them?"
    )
    if not confirmed(question, yes=given["yes"]):
        return 0
    keyed = tuple(sorted({attribute for one in served for attribute in _key_of(one)}))
    began = time.monotonic()
    published = await _publish(_way(session, found, given), given, keyed)
    last = int((await session.api.call(f"STREAM.INFO.{found.stream}"))["state"]["last_seq"])
    settled = await _settled(session, found, last, began, given) if waits else []
    told = _result(published, size, settled, dict.fromkeys(keyed, int(given["keys"])))
    if given["output"] == "table":
        click.echo(_text(told), nl=False)
    else:
        click.echo(text_of(told, given["output"]), nl=False)
    return 0 if all(each["pending"] == 0 for each in settled) else 1


def _way(session: Session, found: Channel, given: Given) -> AbstractAsyncContextManager[Send]:
    if given["url"]:
        return send.over_http(given["url"], Mode.BINARY)
    if session.place.receive is not None:
        path = names.path(found.namespace, found.name)
        return send.over_http(session.place.receive + path, Mode.BINARY)
    return send.over_nats(session, found.ref, Mode.BINARY)


def _key_of(one: Subscription) -> tuple[str, ...]:
    """The attribute that orders its events, if one does."""
    order = one.subscriber.order if one.subscriber is not None else OrderSpec()
    return (order.key,) if order.kind is DeliveryOrder.BY_KEY else ()


async def _publish(way: AbstractAsyncContextManager[Send], given: Given, keyed: Sequence[str]) -> Published:
    run, data = secrets.token_hex(4), os.urandom(given["size"])
    numbers = iter(range(given["events"]))
    pace, latencies = Pace(given["rate"]), list[float]()

    async with way as send_one:
        with Progress("published", given["events"]) as progress:

            async def work() -> None:
                # One iterator for all of them: each takes the next number.
                for number in numbers:
                    await pace.turn()
                    began = time.perf_counter()
                    await send_one(event(run, number, data, dict.fromkeys(keyed, number % given["keys"])))
                    latencies.append(time.perf_counter() - began)
                    progress.step()

            began = time.monotonic()
            async with asyncio.TaskGroup() as workers:
                for _ in range(given["parallel"]):
                    workers.create_task(work())
            return Published(len(latencies), time.monotonic() - began, latencies)


async def _settled(session: Session, found: Channel, last: int, began: float, given: Given) -> list[dict[str, Any]]:
    """For each Subscription: how long it took from the first publish until it had settled everything."""
    deadline = time.monotonic() + given["wait"]
    done: dict[str, dict[str, Any]] = {}
    with Progress("settled", what="Subscription") as progress:
        while True:
            for one in await subscriptions(session.admin, found):
                if one.state != "ready" or str(one.ref) in done:
                    continue
                over = one.settled_to >= last or one.pending + one.unacked == 0
                if over or time.monotonic() > deadline:
                    left = 0 if over else one.pending + one.unacked
                    seconds = time.monotonic() - began
                    count = max(0, given["events"] - left)
                    done[str(one.ref)] = {
                        "subscription": str(one.ref),
                        "settled": count,
                        "pending": left,
                        "seconds": round(seconds, 3),
                        "perSecond": round(count / seconds, 1),
                    }
                    progress.step()
                    continue
                break
            else:
                return list(done.values())
            await asyncio.sleep(LOOK_SECONDS)


def event(run: str, number: int, data: bytes, keys: Mapping[str, int]) -> Event:
    """One event of a run.

    Args:
        keys: by the attribute that is to have it; id and time are no keys, being each event's own.
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


def _result(published: Published, size: int, settled: list[dict[str, Any]], keys: Mapping[str, int]) -> dict[str, Any]:
    rate = published.events / max(published.seconds, 1e-9)
    cuts = quantiles(published.latencies, n=100) if len(published.latencies) > 1 else published.latencies * 99
    return {
        "published": {
            "events": published.events,
            "seconds": round(published.seconds, 3),
            "perSecond": round(rate, 1),
            "bytesPerSecond": round(rate * size),
            "keys": keys,
            "latencyMs": {f"p{at}": round(cuts[at - 1] * 1000, 2) for at in (50, 90, 99)},
        },
        "settled": settled,
    }


_COLUMNS: tuple[Column, ...] = (
    ("SUBSCRIPTION", lambda item: item["subscription"]),
    ("SETTLED", lambda item: item["settled"]),
    ("LEFT", lambda item: item["pending"]),
    ("SECONDS", lambda item: item["seconds"]),
    ("PER SECOND", lambda item: item["perSecond"]),
)


def _text(told: dict[str, Any]) -> str:
    published = told["published"]
    latency = ", ".join(f"{name} {value} ms" for name, value in published["latencyMs"].items())
    head = (
        f"published {counted(published['events'], 'event')} in {published['seconds']} s: {published['perSecond']}/s, "
        f"{units.size(published['bytesPerSecond'])}/s, acknowledged after {latency}\n"
    )
    head += "".join(f"with {counted(count, 'key')} in {name}\n" for name, count in published["keys"].items())
    if not told["settled"]:
        tell("no Subscription was waited for")
    return head + table(_COLUMNS, told["settled"])

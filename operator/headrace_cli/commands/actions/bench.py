"""What `bench` does: it asks, sends, waits, and shows the numbers."""

from __future__ import annotations

import time

from headrace.core.plural import counted
from headrace_cli.access.session import Session
from headrace_cli.catalog.channels import channel
from headrace_cli.catalog.subscriptions import subscriptions
from headrace_cli.commands.console import confirmed, show, tell
from headrace_cli.commands.params import channel_of
from headrace_cli.commands.rules import Given
from headrace_cli.events import bench, send
from headrace_cli.events.bench import Load
from headrace_cli.events.send import Mode
from headrace_cli.view import units
from headrace_cli.view.output import text_of
from headrace_cli.view.progress import Progress


async def measure(session: Session, given: Given) -> int:
    found = await channel(session.api, channel_of(given))
    served = [one for one in await subscriptions(session.admin, found) if one.state == "ready"]
    keyed = bench.ordering_attributes(served)
    load = Load(given["events"], given["size"], given["keys"], keyed, given["parallel"], given["rate"])
    to = ", ".join(str(one.ref) for one in served) or "nobody"
    what = f"{counted(load.events, 'event')} of type {bench.TYPE} with {units.size(load.size)}"
    if not confirmed(f"{what} to {found.ref}, and so to {to}. Send them?", yes=given["yes"]):
        return 0
    began, url = time.monotonic(), given["url"]
    way = send.over_http(url, Mode.BINARY) if url else send.to_channel(session, found.ref, Mode.BINARY)
    with Progress("published", load.events) as progress:
        published = await bench.publish(way, load, progress.step)
    settled = []
    if served and not given["publish_only"]:
        with Progress("settled", what="Subscription") as progress:
            settled = await bench.settle(session, found, load.events, began, given["wait"], progress.step)
    numbers = bench.result(published, load, settled)
    if not settled and given["output"] == "table":
        tell("no Subscription was waited for")
    show(bench.text(numbers) if given["output"] == "table" else text_of(numbers, given["output"]))
    return 0 if all(each["pending"] == 0 for each in settled) else 1

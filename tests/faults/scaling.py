"""The scaler of the bench, in its process or in one of its own: the operator's, with the channels told by hand.

`python -m tests.faults.scaling JSON`: the same for cells that cut it off or set its clock; it says `ready` and serves
until it is killed.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import Callable, Iterable

from headrace.core.delivery.lease import Lease, LeaseAnswer
from headrace.core.delivery.subscriber import Subscriber
from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.nats.client import Client
from headrace_operator.scaling.lease_client import LeaseClient, Meanwhile
from headrace_operator.scaling.scaler import Scaler
from tests.support.functions.functions import TOKEN


async def scale(
    nats_url: str,
    streams: Iterable[str],
    turn: Callable[[], str],
    ready: Callable[[], None],
    *,
    max_in_flight: int,
    sweep_seconds: float,
) -> None:
    """Scale these streams until cancelled; `turn` gives the URL of the `forward` for the next lease."""
    connection = Client(NatsSettings(url=nats_url))
    async with LeaseClient(TOKEN) as client:

        async def open_lease(_: Subscriber, lease: Lease, meanwhile: Meanwhile) -> LeaseAnswer:
            return await client.open(turn(), lease, meanwhile)

        api = JetStreamApi(connection)
        scaler = Scaler(connection, api, open_lease, max_in_flight=max_in_flight, sweep_seconds=sweep_seconds)
        scaler.serve(streams)
        ready()
        try:
            await scaler.run()
        finally:
            await connection.close()


def main() -> None:
    asked = json.loads(sys.argv[1])
    forwards = itertools.cycle(asked.pop("forwards"))
    asyncio.run(scale(turn=lambda: next(forwards), ready=lambda: print("ready", flush=True), **asked))


if __name__ == "__main__":
    main()

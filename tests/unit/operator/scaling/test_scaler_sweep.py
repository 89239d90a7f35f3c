"""A sweep that NATS did not answer is made again soon: no hint tells of the consumers that it would have found."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from headrace.core.errors import Unavailable
from headrace_operator.scaling.scaler import Scaler
from tests.support.waiting import until
from tests.unit.operator.scaling.test_scaler_slots import ORDERS, OneConnection, OneStream


class NotYetReady(OneStream):
    """A server that is back, but whose JetStream does not answer the first time."""

    looks = 0

    def consumers(self, stream: str) -> Any:
        self.looks += 1
        if self.looks == 1:
            raise Unavailable("JetStream does not answer")
        return super().consumers(stream)


async def test_a_sweep_that_nats_did_not_answer_is_made_again_soon() -> None:
    api = NotYetReady()
    opener = SimpleNamespace()
    scaler = Scaler(OneConnection(), api, opener, sweep_seconds=3600.0)  # type: ignore[arg-type]  # what they are asked
    scaler.serve([ORDERS.stream])
    running = asyncio.create_task(scaler.run())
    await until("its consumer is known", lambda: len(scaler.rows()) == 1)
    assert api.looks >= 2
    running.cancel()
    await asyncio.wait([running])

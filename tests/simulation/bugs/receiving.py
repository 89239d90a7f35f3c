"""Bugs of `receive`, between a producer's bytes and its 202."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from headrace.core.errors import Unavailable
from headrace.core.event import nats_codec, stored_block, whole_post
from headrace.core.nats.jetstream import PubAck
from headrace.io.jetstream import data_path
from headrace.receive import short_way as intake
from headrace.receive import story
from tests.simulation.bugs.planting import bug


@bug
def no_message_id() -> None:
    """Events are stored under ids of chance: one that is published again is stored twice."""
    chance = random.Random(1)

    def of_chance(*_: object) -> bytes:
        return chance.randbytes(16).hex().encode()

    whole_post.ascii_msg_id = stored_block.ascii_msg_id = of_chance
    nats_codec.msg_id = lambda *_: of_chance().decode()


@bug
def lost_pub_ack_is_202() -> None:
    """A publish without a PubAck counts as stored."""
    publish: Any = data_path.JetStream._publish

    async def stored(self: Any, message: Any, past: Any, *, headroom: int) -> PubAck:
        try:
            return await publish(self, message, past._replace(timeout=min(past.timeout, 2.0)), headroom=headroom)
        except Unavailable:
            return PubAck("unknown", 0, False, False)

    data_path.JetStream._publish = stored


@bug
def answered_before_pub_ack() -> None:
    """The short way answers 202 when it has published."""
    take = intake.Intake.take

    def early(self: Any, data: bytes, answer: Any) -> Any:
        taken = take(self, data, lambda _: None)
        if taken == 0:
            asyncio.get_running_loop().call_soon(answer, story.ACCEPTED)
        return taken

    intake.Intake.take = early

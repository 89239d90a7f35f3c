"""Effects of a lease that do nothing, for tests that care about a few of them only."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.core.delivery.subscriber import Destination
from headrace.core.event.nats_codec import NatsMessage
from headrace.core.http import Headers, HttpAnswer
from headrace.forward import Effects, Inbox

NOON = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)


def effects(**own: Any) -> Effects:
    """Every POST is answered with 204 at once; `own` are members of `Effects` to have in place of these."""
    return replace(
        Effects(
            open_inbox=_open_inbox,
            post=_post,
            load=_nothing,
            store=_nothing,
            drop=_nothing,
            park=_park,
            settle=_nothing,
            ack=_nothing,
            hold=lambda _: None,
            release=lambda _: None,
            monotonic=lambda: 0.0,
            now=lambda: NOON,
            report=lambda *_: None,
        ),
        **own,
    )


async def _open_inbox(*_: object) -> Inbox:
    raise AssertionError("there is nothing to pull from")


async def _post(_to: Destination, _headers: Headers, _body: bytes, _timeout: timedelta) -> HttpAnswer:
    return HttpAnswer(204)


async def _nothing(*_: object) -> None:
    pass


async def _park(_: NatsMessage) -> None:
    raise AssertionError("what is delivered is not parked")

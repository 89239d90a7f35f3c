"""Policies at the gate, on both ways of an event."""

from __future__ import annotations

from typing import Any, cast

import pytest

from headrace.core.errors import InvalidEvent, Refused
from headrace.core.security import token
from headrace.core.security.document import SecurityDocument
from headrace.core.security.flags import Flags
from headrace.core.security.senders import Senders
from headrace.receive.doors import Doors
from headrace.receive.gate import Gate
from headrace.receive.short_way import Intake
from tests.unit.receive.test_story import EVENT, GOOD, HOST, Tokens, World, post


def policed(**policy: Any) -> World:
    part = {"policies": [{"name": "ep", "from": ["till"], **policy}]}
    document = SecurityDocument(1, Flags(oidc=True), channels={"shop/orders": part})
    return World(gate=Gate(cast(token.Tokens, Tokens(known_now=True)), Senders(document)))


ORDERED = ["all", [["exact", {"type": "shop.order"}]]]
REFUNDED = ["all", [["exact", {"type": "shop.refund"}]]]


@pytest.mark.parametrize(
    ("policy", "short"),
    [
        pytest.param({}, True, id="whoever may send anything goes the short way"),
        pytest.param({"filters": ORDERED}, False, id="filters are for the long way"),
        pytest.param({"from": ["somebody else"]}, False, id="so are refusals"),
    ],
)
def test_policies_on_the_short_way(policy, *, short) -> None:
    world = policed(**policy)
    taken = Intake(world.effects(), world.waiting, Doors().plain).take(post(HOST, GOOD, *EVENT), world.answer)
    assert (taken == 0, world.happened) == (short, ["publish"] if short else [])


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param({}, id="without filters"),
        pytest.param({"filters": ORDERED}, id="an event that passes"),
    ],
)
async def test_an_event_that_a_policy_lets_in_is_stored(policy) -> None:
    world = policed(**policy)
    await world.by_asgi(post(HOST, GOOD, *EVENT))
    assert world.happened[:2] == ["publish", "answer 202"]


@pytest.mark.parametrize(
    ("policy", "sent", "status"),
    [
        pytest.param({"filters": REFUNDED}, EVENT, 403, id="an event that fails"),
        pytest.param({"from": ["somebody else"]}, EVENT, 403, id="another sender"),
    ],
)
async def test_an_event_that_no_policy_lets_in_is_refused(policy, sent, status) -> None:
    world = policed(**policy)
    with pytest.raises(Refused) as refused:
        await world.by_asgi(post(HOST, GOOD, *sent))
    assert (refused.value.status, world.happened) == (status, [])


async def test_an_event_is_parsed_before_policies_look_at_it() -> None:
    with pytest.raises(InvalidEvent):
        await policed(**{"from": ["somebody else"]}).by_asgi(post(HOST, GOOD, *EVENT[:-1]))

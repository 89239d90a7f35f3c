"""Requests after the server's answers: lowered where they are ours, taken back where they do harm."""

from __future__ import annotations

import pytest

from headrace.core.channel.granted import MAX_ACK_PENDING, Lowered, lowered
from headrace.core.nats.action import Action, CreateConsumer, DeleteConsumer, Done, Outcome, Rejected, UpdateConsumer
from headrace.reconcile.deeds import Deeds
from tests.support.nats.fake_nats import FakeNats

ASKED = {"name": "C", "max_ack_pending": 10_000, "inactive_threshold": 0}
TOO_MANY = Rejected("consumer max ack pending exceeds system limit of 500")


def test_a_default_is_lowered_to_the_limit_that_the_refusal_names() -> None:
    given = lowered(CreateConsumer("S", ASKED), TOO_MANY, {MAX_ACK_PENDING})
    why = Lowered("spec.consumerConfigTemplate.maxAckPending", 10_000, 500, TOO_MANY.words)
    assert given == (CreateConsumer("S", {**ASKED, "max_ack_pending": 500}), why)


@pytest.mark.parametrize(
    ("words", "defaults"),
    [
        pytest.param(TOO_MANY.words, (), id="the author has asked for it"),
        pytest.param("maximum consumers limit reached", {MAX_ACK_PENDING}, id="another limit"),
        pytest.param("consumer max ack pending exceeds system limit of many", {MAX_ACK_PENDING}, id="no number"),
        pytest.param("consumer max ack pending exceeds system limit of 20000", {MAX_ACK_PENDING}, id="no lower one"),
    ],
)
def test_what_can_not_be_lowered_stays_refused(words: str, defaults: set[str]) -> None:
    assert lowered(CreateConsumer("S", ASKED), Rejected(words), defaults) is None


async def test_a_consumer_that_inherits_what_does_harm_is_taken_back() -> None:
    nats = FakeNats(lambda action: _inheriting(action))

    outcome = await Deeds(nats).carry_out(CreateConsumer("S", ASKED))

    assert isinstance(outcome, Rejected)
    assert outcome.words.startswith("NATS makes every consumer with inactive_threshold 6s, ")
    assert nats.actions[-1] == DeleteConsumer("S", "C")


async def test_one_that_was_there_before_keeps_its_position() -> None:
    nats = FakeNats(lambda action: _inheriting(action))

    outcome = await Deeds(nats).carry_out(UpdateConsumer("S", ASKED))

    assert isinstance(outcome, Rejected)
    assert nats.actions == [UpdateConsumer("S", ASKED)]


def _inheriting(action: Action) -> Outcome | None:
    match action:
        case CreateConsumer(_, config) | UpdateConsumer(_, config):
            return Done({**config, "inactive_threshold": 6_000_000_000})
        case _:
            return Done({})

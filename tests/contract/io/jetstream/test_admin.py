"""Actions are carried out on a real server, and its streams and consumers read."""

from __future__ import annotations

import nats.aio.client
import pytest

from headrace.core.nats.action import (
    Action,
    CreateConsumer,
    CreateStream,
    DeleteConsumer,
    DeleteStream,
    Done,
    PurgeSubjects,
    Rejected,
    UpdateConsumer,
    UpdateStream,
)
from headrace.io.jetstream.admin import Admin
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.jetstream.data_path import JetStream
from headrace.io.nats.client import Client

ORDERS = {"name": "ORDERS", "subjects": ["orders.>"]}
BILLING = {"name": "billing", "durable_name": "billing", "ack_policy": "explicit"}


@pytest.fixture
def admin(connection: Client) -> Admin:
    api = JetStreamApi(connection)
    return Admin(api, JetStream(connection, api))


async def test_what_does_not_exist_is_read_as_nothing(admin: Admin) -> None:
    assert await admin.stream("ORDERS") is None
    assert await admin.consumers("ORDERS") == []
    assert await admin.count("ORDERS", "orders.>") == 0


async def test_what_was_done_is_answered_as_the_server_has_it(admin: Admin) -> None:
    made = await admin.carry_out(CreateStream(ORDERS))
    changed = await admin.carry_out(UpdateStream({**ORDERS, "max_msgs": 5}))
    consumer = await admin.carry_out(CreateConsumer("ORDERS", BILLING))
    slower = await admin.carry_out(UpdateConsumer("ORDERS", {**BILLING, "max_ack_pending": 7}))

    assert isinstance(made, Done)
    assert (made.config["subjects"], made.config["max_msgs"]) == (["orders.>"], -1)
    assert isinstance(changed, Done)
    assert changed.config["max_msgs"] == 5
    assert isinstance(consumer, Done)
    assert consumer.config["max_ack_pending"] == 1000
    assert isinstance(slower, Done)
    assert slower.config["max_ack_pending"] == 7
    assert await admin.stream("ORDERS") == changed.config


async def test_subjects_that_hold_messages_are_counted(admin: Admin, stranger: nats.aio.client.Client) -> None:
    await admin.carry_out(CreateStream(ORDERS))
    jetstream = stranger.jetstream()
    for subject in ("orders.a", "orders.a", "orders.b", "orders.c.d"):
        await jetstream.publish(subject, b"")

    assert await admin.count("ORDERS", "orders.*") == 2
    assert await admin.carry_out(PurgeSubjects("ORDERS", "orders.a")) == Done({})
    assert await admin.count("ORDERS", "orders.*") == 1


@pytest.mark.parametrize(
    "action",
    [
        DeleteStream("GONE"),
        DeleteConsumer("GONE", "billing"),
        DeleteConsumer("ORDERS", "gone"),
        PurgeSubjects("GONE", "a"),
    ],
)
async def test_what_is_gone_already_counts_as_deleted(admin: Admin, action: Action) -> None:
    await admin.carry_out(CreateStream(ORDERS))

    assert await admin.carry_out(action) == Done({})


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (CreateStream({**ORDERS, "max_msgs": 5}), "stream name already in use with a different configuration"),
        (CreateStream({"name": "OTHER", "subjects": ["orders.a"]}), "subjects overlap with an existing stream"),
        (UpdateStream({**ORDERS, "name": "GONE"}), "stream not found"),
        (CreateConsumer("GONE", BILLING), "stream not found"),
        (UpdateConsumer("ORDERS", {**BILLING, "name": "gone", "durable_name": "gone"}), "consumer does not exist"),
        (CreateConsumer("ORDERS", {**BILLING, "max_ack_pending": 7}), "consumer already exists"),
    ],
)
async def test_a_refusal_has_the_servers_words(admin: Admin, action: Action, words: str) -> None:
    await admin.carry_out(CreateStream(ORDERS))
    await admin.carry_out(CreateConsumer("ORDERS", BILLING))

    assert await admin.carry_out(action) == Rejected(words)

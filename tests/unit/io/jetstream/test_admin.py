"""The effects of `reconcile` under answers that a single new server never gives."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest

from headrace.core.errors import Refused, Unavailable
from headrace.core.nats.action import CreateStream, DeleteStream
from headrace.core.nats.api_error import ApiError
from headrace.core.nats.nats_wire.frames import Arrival
from headrace.io.jetstream.admin import Admin
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.jetstream.data_path import JetStream
from headrace.io.nats.client import Client


class Told:
    """A JetStream API that gives one answer to everything."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self._answer = answer

    async def call(self, subject: str, _body: object = None) -> dict[str, Any]:
        if "error" in self._answer:
            raise ApiError(subject, self._answer["error"])
        return self._answer


def admin(answer: dict[str, Any]) -> Admin:
    api = cast("JetStreamApi", Told(answer))
    return Admin(api, JetStream(cast(Client, None), api))


@pytest.mark.parametrize(
    "absent",
    [
        pytest.param({"missing": ["KN_SUB_B"]}, id="its server did not answer in time"),
        pytest.param({"offline": {"KN_SUB_B": "unsupported"}}, id="its server is too old for it"),
    ],
)
async def test_an_incomplete_list_of_consumers_is_not_taken_for_the_truth(absent: dict[str, Any]) -> None:
    page = {"total": 1, "consumers": [{"name": "KN_SUB_A", "config": {}}], **absent}

    with pytest.raises(Unavailable, match="KN_SUB_B"):
        await admin(page).consumers("ORDERS")


async def test_an_incomplete_list_of_streams_is_not_taken_for_the_truth() -> None:
    page = {"total": 2, "streams": [{"config": {"name": "A"}}], "missing": ["A", "B"]}
    answers = AsyncMock(return_value=Arrival("_INBOX.a", data=json.dumps(page).encode()))
    api = JetStreamApi(cast(Client, SimpleNamespace(request=answers)))

    with pytest.raises(Unavailable, match=r"of the streams B$"):
        async with Admin(api, JetStream(cast(Client, None), api)).streams(to_change=True):
            pass


@pytest.mark.parametrize("err_code", [10008, 10009])
async def test_a_cluster_that_elects_is_waited_for(err_code: int) -> None:
    passing = admin({"error": {"code": 503, "err_code": err_code, "description": "system temporarily unavailable"}})

    with pytest.raises(Unavailable):
        await passing.stream("ORDERS")
    with pytest.raises(Unavailable):
        await passing.carry_out(CreateStream({"name": "ORDERS"}))
    with pytest.raises(Unavailable):
        await passing.carry_out(DeleteStream("ORDERS"))


async def test_a_question_that_is_refused_is_the_administrators_to_cure() -> None:
    forbidden = admin({"error": {"code": 503, "err_code": 10039, "description": "jetstream not enabled for account"}})

    with pytest.raises(Refused, match="not enabled for account"):
        await forbidden.stream("ORDERS")


async def test_a_consumer_whose_configuration_lacks_its_name_has_it_all_the_same() -> None:
    page = {"total": 1, "consumers": [{"name": "legacy", "config": {"durable_name": "legacy"}}]}

    assert await admin(page).consumers("ORDERS") == [{"durable_name": "legacy", "name": "legacy"}]

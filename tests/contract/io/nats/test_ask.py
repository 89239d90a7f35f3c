"""Asking without a coroutine: the same answers and the same errors as `request`, each told once, or nothing at all."""

from __future__ import annotations

import asyncio
from functools import partial

from headrace.core.errors import Refused, Unavailable
from headrace.core.nats.nats_wire import header_block
from headrace.io.nats.client import Client
from headrace.io.nats.contract import Answer, Arrival, Broken
from tests.support.waiting import until

BLOCK = header_block({"ce-id": "1"})


class Told(list[Answer]):
    """What was told, in its order."""

    async def one(self) -> Answer:
        await until("it is told", lambda: bool(self))
        # Nothing follows.
        await asyncio.sleep(0.05)
        [found] = self
        return found


async def echo(client: Client) -> list[Arrival]:
    """Answer on `echo` with what is asked, from the first question on."""
    asked: list[Arrival] = []
    replies: set[asyncio.Task[None]] = set()

    def answer(question: Arrival) -> None:
        asked.append(question)
        replies.add(asyncio.ensure_future(client.publish(question.reply, question.data, headers=question.headers)))

    await client.subscribe("echo", answer)
    await client.flush(5)
    return asked


async def test_a_question_is_answered_later_and_with_what_was_sent(client):
    await client.ready(5)
    await echo(client)
    told = Told()
    assert client.ask("echo", b"data", BLOCK, 5, told.append)
    assert not told
    answer = await told.one()
    assert (answer.data, dict(answer.headers)) == (b"data", {"ce-id": "1"})


async def test_a_client_that_is_not_connected_or_not_able_sends_nothing(client):
    told = Told()
    assert not client.ask("echo", b"data", BLOCK, 5, told.append)
    assert not told


async def test_what_it_says_of_sending_is_true(client):
    await client.ready(5)
    told = Told()
    if client.ask("nobody.listens", b"", b"", 5, told.append):
        assert (await told.one()).status == "503"
    else:
        assert (await client.request("nobody.listens", timeout=5)).status == "503"
        assert not told


async def test_what_is_too_large_or_illegal_is_not_sent(client):
    await client.ready(5)
    told = Told()
    assert not client.ask("echo", bytes(client.max_payload), BLOCK, 5, told.append)
    assert not client.ask("two words", b"", b"", 5, told.append)
    # They left nothing behind that would be told when the time is up.
    assert (await client.request("nobody.listens", timeout=5)).status == "503"
    assert not told


async def test_silence_is_told_when_the_time_is_up(client):
    await client.ready(5)
    await client.subscribe("silent", lambda _: None)
    told = Told()
    began = asyncio.get_running_loop().time()
    assert client.ask("silent", b"", b"", 0.3, told.append)
    assert isinstance(await told.one(), Unavailable)
    assert asyncio.get_running_loop().time() - began > 0.29


async def test_a_broken_connection_is_told_at_once(client, nats_server):
    await client.ready(5)
    await client.subscribe("silent", lambda _: None)
    told = Told()
    assert client.ask("silent", b"", b"", 60, told.append)
    await client.flush(5)
    nats_server.kill()
    assert isinstance(await told.one(), Broken)


async def test_what_the_server_forbids_is_told_as_refused(client, nats_server):
    permissions = 'default_permissions: { publish: ["free"], subscribe: ">" }'
    nats_server.restart(config=f"authorization {{ {permissions}, users: [{{user: a, password: a}}] }}\nno_auth_user: a")
    await client.ready(5)
    told = Told()
    assert client.ask("forbidden", b"", b"", 60, told.append)
    refused = await told.one()
    assert isinstance(refused, Refused)
    assert refused.status == 403


async def test_answers_find_their_questions_in_any_order(client):
    count = 1000
    await client.ready(5)
    asked: list[Arrival] = []
    await client.subscribe("later", asked.append)
    told: dict[int, Answer] = {}
    for number in range(count):
        assert client.ask("later", b"%d" % number, b"", 20, lambda found, number=number: told.update({number: found}))
    await until("all were asked", lambda: len(asked) == count)
    for question in reversed(asked):
        await client.publish(question.reply, question.data)
    await until("all are told", lambda: len(told) == count)
    assert all(_data(told[number]) == b"%d" % number for number in range(count))


async def test_one_burst_of_answers_finds_all_questions_and_a_fault_of_one_costs_only_itself(client, caplog):
    count = 300
    await client.ready(5)
    asked: list[Arrival] = []
    await client.subscribe("later", asked.append)
    told: dict[int, Answer] = {}

    def note(number: int, answer: Answer) -> None:
        told[number] = answer
        if number % 10 == 3:
            raise RuntimeError("a fault of ours")

    for number in range(count):
        assert client.ask("later", b"%d" % number, BLOCK, 20, partial(note, number))
    awaited = [asyncio.ensure_future(client.request("later", b"awaited", headers=BLOCK, timeout=20)) for _ in range(3)]
    given_up = asyncio.ensure_future(client.request("later", b"given up", headers=BLOCK, timeout=20))
    await until("all were asked", lambda: len(asked) == count + 4)
    given_up.cancel()
    # In one write, and so in one read of theirs.
    for question in asked:
        assert client.answer(question.reply, question.data)
    assert {answer.data for answer in await asyncio.gather(*awaited)} == {b"awaited"}
    await until("all are told", lambda: len(told) == count)
    assert all(_data(told[number]) == b"%d" % number for number in range(count))
    assert caplog.text.count("RuntimeError: a fault of ours") == count / 10


def _data(answer: Answer) -> bytes:
    assert isinstance(answer, bytes | Arrival)
    return answer if isinstance(answer, bytes) else answer.data

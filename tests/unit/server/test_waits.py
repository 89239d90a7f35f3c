"""How long a connection waits, for what, how much it holds meanwhile, and its end at shutdown."""

from __future__ import annotations

import pytest

from headrace.server.connection import LAST_SECONDS, REQUEST_SECONDS
from headrace.server.protocol import BITE, SMALL_BODY
from headrace.server.refusals import ANSWERS
from headrace.server.states import ConnectionState
from tests.support.http.fronted import ACCEPTED, BY_ASGI, CLOSING, ONE, STORED, THREE, TWO, turns
from tests.support.memory import taken_memory

# What comes of it first is too much for one turn with others, and lacks too much for the short way.
LARGE = ONE.replace(b"length: 1\r\n\r\n1", b"length: %d\r\n\r\n%b" % (3 * BITE, b"x" * 3 * BITE))
BITE_OF_LARGE = 2 * BITE - 100


async def test_at_shutdown_the_event_on_its_way_is_answered_and_the_connection_closed(
    application, transport, connection
):
    connection.data_received(ONE)
    connection.shutdown()
    assert not transport.closed
    application.answers[0](STORED)
    assert (transport.written, transport.closed) == (CLOSING, True)


async def test_at_shutdown_an_idle_connection_is_closed_at_once(application, transport, connection):
    connection.data_received(ONE)
    application.answers[0](STORED)
    connection.shutdown()
    assert transport.closed


async def test_at_shutdown_whoever_is_in_the_middle_of_an_event_may_finish_it(application, transport, connection):
    connection.data_received(ONE[:-1])
    connection.shutdown()
    assert (transport.closed, application.held) == (False, 0)
    connection.data_received(ONE[-1:])
    await turns()
    assert transport.written == BY_ASGI.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
    assert transport.closed
    connection.connection_lost(None)


async def test_at_shutdown_nobody_is_waited_for_without_end(application, transport, connection, clock):
    connection.data_received(ONE[:-1])
    clock.advance(REQUEST_SECONDS - 1)
    connection.shutdown()
    clock.advance(LAST_SECONDS - 0.1)
    assert transport.written == b""
    clock.advance(0.2)
    assert transport.written == ANSWERS[503]
    assert transport.closed
    connection.connection_lost(None)
    await turns()


@pytest.mark.parametrize("begun", [20, -9], ids=["in the head", "in the body"])
async def test_what_has_begun_has_to_be_complete_in_time(application, transport, connection, clock, begun):
    whole = ONE.replace(b"length: 1\r\n\r\n1", b"length: 9\r\n\r\n123456789")
    connection.data_received(whole[:begun])
    clock.advance(REQUEST_SECONDS - 1)
    # Nor is there more time for one who sends something now and then.
    connection.data_received(whole[begun : begun + 2])
    assert (transport.written, application.held > 0) == (b"", True)
    clock.advance(1)
    assert transport.written == ANSWERS[408]
    assert (transport.closed, application.held) == (True, 0)
    connection.data_received(whole[begun + 2 :])
    assert application.taken == []


async def test_what_is_kept_has_no_more_time_by_asgi_and_what_comes_behind_it_has_its_own(
    application, transport, connection, clock
):
    large = ONE.replace(b"length: 1\r\n\r\n1", b"length: 9\r\n\r\n12345678")
    connection.data_received(large)
    clock.advance(REQUEST_SECONDS - 1)
    connection.data_received(b"9" + TWO[:10])
    await turns()
    clock.advance(REQUEST_SECONDS - 1)
    assert (transport.written, transport.closed) == (BY_ASGI, False)
    clock.advance(1)
    assert (transport.written, transport.closed) == (BY_ASGI + ANSWERS[408], True)


async def test_a_large_event_on_a_connection_that_was_idle_is_as_young_as_it_is(
    application, transport, connection, clock
):
    connection.data_received(ONE)
    application.answers.pop()(STORED)
    clock.advance(3)
    connection.data_received(LARGE[:BITE_OF_LARGE])
    # Or, among half bodies that came meanwhile, it would be the oldest, and would have to go.
    assert (connection.holds_since(), connection.waited_since()) == (clock.time(), None)
    await turns()
    assert (connection.holds_since(), connection.waited_since()) == (clock.time(), clock.time())
    connection.data_received(LARGE[BITE_OF_LARGE:])
    await turns()
    assert transport.written == ACCEPTED + BY_ASGI


async def test_at_shutdown_a_large_event_that_waits_for_its_turn_gets_the_last_moment_too(
    application, transport, connection, clock
):
    connection.data_received(LARGE[:BITE_OF_LARGE])
    connection.shutdown()
    await turns()
    clock.advance(LAST_SECONDS - 0.1)
    assert transport.written == b""
    connection.data_received(LARGE[BITE_OF_LARGE:])
    await turns()
    assert transport.written == BY_ASGI.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
    assert transport.closed


async def test_and_no_more_than_that(application, transport, connection, clock):
    connection.data_received(LARGE[:BITE_OF_LARGE])
    connection.shutdown()
    await turns()
    clock.advance(LAST_SECONDS - 0.1)
    connection.data_received(LARGE[BITE_OF_LARGE:-1])
    await turns()
    clock.advance(0.2)
    assert transport.written == ANSWERS[503]
    connection.connection_lost(None)
    await turns()


@pytest.mark.parametrize("idle", [0, 90], ids=["on a new connection", "on one that was idle"])
async def test_what_comes_by_half_behind_an_event_has_its_own_time(application, transport, connection, clock, idle):
    connection.timeout_keep_alive = 95
    if idle:
        connection.data_received(ONE)
        application.answers.pop()(STORED)
        clock.advance(idle)
    connection.data_received(TWO[:-1])
    clock.advance(REQUEST_SECONDS - 1)
    connection.data_received(TWO[-1:])
    connection.data_received(THREE[:20])
    # It begins when its turn has come.
    clock.advance(REQUEST_SECONDS + 1)
    assert (transport.written, application.held) == (ACCEPTED if idle else b"", 20)
    application.answers[0](STORED)
    await turns()
    answered = (ACCEPTED if idle else b"") + ACCEPTED
    clock.advance(REQUEST_SECONDS - 1)
    assert (transport.written, application.held) == (answered, 20)
    clock.advance(1)
    assert (transport.written, application.held) == (answered + ANSWERS[408], 0)
    assert transport.closed


@pytest.mark.parametrize("takes", [True, False], ids=["short way", "ASGI"])
async def test_an_idle_connection_is_closed_after_its_time_and_not_before(
    application, transport, connection, clock, takes
):
    application.takes = takes
    for _ in range(3):
        clock.advance(connection.timeout_keep_alive - 1)
        connection.data_received(ONE)
        # What takes its time is not idle.
        clock.advance(500)
        for answer in application.answers:
            answer(STORED)
        application.answers.clear()
        await turns()
    clock.advance(connection.timeout_keep_alive - 1)
    assert not transport.closed
    clock.advance(1)
    assert (transport.closed, transport.written) == (True, (ACCEPTED if takes else BY_ASGI) * 3)


@pytest.mark.parametrize("begun", [20, -1], ids=["in the head", "in the body"])
async def test_what_is_on_its_way_in_is_held_until_it_is_here(application, transport, connection, begun):
    connection.data_received(ONE[:begun])
    assert application.held == len(ONE[:begun])
    connection.data_received(ONE[begun:])
    await turns()
    assert (len(application.taken) + len(application.by_asgi), application.held) == (1, 0)
    for answer in application.answers:
        answer(STORED)
    connection.data_received(ONE[:begun])
    connection.connection_lost(None)
    assert application.held == 0


async def test_of_what_asgi_reads_nothing_is_held_here(application, transport, connection):
    connection.data_received(ONE.replace(b"length: 1", b"length: 900000"))
    await turns()
    connection.data_received(bytes(30_000))
    assert (connection._state, application.held) == (ConnectionState.BODY, 0)
    connection.connection_lost(None)
    await turns()


@pytest.mark.parametrize("begun", [20, -1], ids=["in the head", "in the body"])
async def test_where_there_is_no_room_for_what_is_on_its_way_in_it_is_refused(
    application, transport, connection, begun
):
    application.room, application.held = 1000, 990
    connection.data_received(ONE[:begun])
    assert transport.written == ANSWERS[503]
    assert (transport.closed, application.held) == (True, 990)


async def test_nor_is_there_room_for_the_next_piece(application, transport, connection):
    sent = ONE.replace(b"length: 1", b"length: 99")
    application.held, application.room = 1, len(sent) + 10
    connection.data_received(sent)
    assert application.held == 1 + len(sent)
    connection.data_received(bytes(50))
    assert transport.written == ANSWERS[503]
    assert (transport.closed, application.held) == (True, 1)


async def test_what_is_kept_in_small_pieces_takes_little_more_memory_than_is_counted(
    application, transport, connection
):
    connection.data_received(ONE.replace(b"length: 1\r\n\r\n1", b"length: %d\r\n\r\n" % SMALL_BODY))
    with taken_memory() as taken:
        for _ in range(SMALL_BODY // 2 - 1):
            connection.data_received(bytes(2))
    assert application.held > SMALL_BODY - 3
    assert taken() < 2 * SMALL_BODY

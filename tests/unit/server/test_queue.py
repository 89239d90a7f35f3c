"""Requests behind another on their connection: none is read before its turn, and each has its end."""

from __future__ import annotations

import asyncio

import uvicorn
from uvicorn.server import ServerState

from headrace.server import protocol
from headrace.server.connection import LAST_SECONDS, REQUEST_SECONDS
from headrace.server.crowd import Crowd
from headrace.server.states import ConnectionState
from tests.support.http.fronted import ACCEPTED, BY_ASGI, CLOSING, ONE, STORED, THREE, TWO, Transport, turns

LONG = b"GET /demo/x HTTP/1.1\r\nhost: x\r\na: " + b"b" * protocol.BITE


async def test_bytes_behind_a_request_are_counted_until_it_is_their_turn_and_nothing_of_them_is_parsed(
    application, transport, connection
):
    connection.data_received(ONE)
    connection.data_received(TWO * 1000)
    assert application.held == len(TWO) * 1000
    assert (connection._state, connection.parser, transport.reading) == (ConnectionState.PILED, None, False)
    application.answers[0](STORED)
    await turns(5000)
    assert (transport.written, application.held) == (ACCEPTED + BY_ASGI * 1000, 0)
    assert transport.reading


async def test_a_long_read_waits_for_its_turn_and_is_counted(application, transport, connection):
    connection.data_received(LONG)
    assert (connection._state, connection.parser, transport.reading) == (ConnectionState.HELD, None, False)
    assert application.held == len(LONG)
    await turns(2)
    assert (connection._state, transport.reading) == (ConnectionState.HEAD, True)
    connection.data_received(b"\r\n\r\n")
    await turns()
    assert (transport.written, application.held) == (BY_ASGI, 0)


async def test_so_does_one_that_joins_what_is_kept(application, transport, connection):
    connection.data_received(ONE[:-1])
    connection.data_received(b"1" + LONG)
    assert (connection._state, application.held) == (ConnectionState.HELD, len(ONE + LONG))
    await turns()
    assert (connection._state, transport.written, transport.reading) == (ConnectionState.HEAD, BY_ASGI, True)


async def test_an_event_of_any_length_that_is_whole_is_taken_at_once(application, connection):
    whole = b"POST /demo/x HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(LONG) + LONG
    connection.data_received(whole)
    assert application.taken == [whole]


async def test_nor_does_the_rest_of_a_body_wait(application, transport, connection):
    connection.data_received(b"POST /demo/x HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(LONG))
    assert connection._state is ConnectionState.BODY
    connection.data_received(LONG)
    assert connection._state is ConnectionState.DUE
    await turns()
    assert transport.written == BY_ASGI


async def test_of_many_long_reads_at_once_one_is_parsed_in_each_pass_of_the_loop(application):
    crowd, loop = Crowd(), asyncio.get_running_loop()
    settings = uvicorn.Config(application, http=protocol.BoundedProtocol, lifespan="off", proxy_headers=False)
    transports = [Transport() for _ in range(20)]
    for transport in transports:
        one = protocol.BoundedProtocol(settings, ServerState(), {}, loop, crowd=crowd)
        one.connection_made(transport)
        one.data_received(b"x" * 2 * protocol.BITE)
    for refused in range(20):
        assert [transport.closed for transport in transports] == [True] * refused + [False] * (20 - refused)
        await asyncio.sleep(0)


async def test_one_request_is_served_at_a_time_whoever_sends_thousands(application, transport, connection):
    application.waits = True
    connection.data_received(TWO * 1000)
    await turns()
    assert len(application.by_asgi) == 1
    assert len(connection.tasks) == 1


async def test_an_event_alone_behind_another_takes_the_short_way_in_its_turn(application, transport, connection):
    connection.data_received(ONE)
    connection.data_received(TWO)
    application.answers[0](STORED)
    await turns()
    assert (application.taken, application.by_asgi) == ([ONE, TWO], [])
    assert transport.reading


async def test_where_there_is_no_room_for_them_the_one_in_front_is_answered_and_the_connection_is_closed(
    application, transport, connection
):
    application.held = 1
    application.room = len(TWO)
    connection.data_received(ONE)
    connection.data_received(TWO)
    assert (application.held, transport.reading) == (1, False)
    application.answers[0](STORED)
    await turns()
    assert (transport.written, transport.closed) == (CLOSING, True)
    assert application.by_asgi == []


async def test_nothing_more_is_read_before_the_last_that_waits_has_its_turn_and_that_counts_as_our_time(
    application, transport, connection, clock
):
    connection.data_received(ONE)
    connection.data_received(TWO + THREE[:-1])
    clock.advance(REQUEST_SECONDS + 1)
    assert (transport.written, transport.reading) == (b"", False)
    application.answers[0](STORED)
    assert not transport.reading
    await turns()
    assert (transport.written, transport.reading) == (ACCEPTED + BY_ASGI, True)
    connection.data_received(THREE[-1:])
    await turns()
    assert transport.written == ACCEPTED + BY_ASGI + BY_ASGI
    assert application.held == 0


async def test_of_requests_that_wait_nothing_is_left_when_the_client_goes(application, transport, connection):
    connection.data_received(ONE)
    connection.data_received(TWO + THREE)
    transport.closed = True
    connection.connection_lost(None)
    assert application.held == 0
    application.answers[0](STORED)
    await turns()
    assert (application.by_asgi, application.held) == ([], 0)


async def test_nor_when_they_wait_for_their_turn(application, transport, connection):
    connection.data_received(ONE)
    connection.data_received(TWO + THREE)
    application.answers[0](STORED)
    transport.closed = True
    connection.connection_lost(None)
    await turns()
    assert (application.by_asgi, application.held) == ([], 0)


async def test_nor_at_shutdown_when_the_first_of_them_has_had_its_turn(application, transport, connection):
    connection.data_received(ONE)
    connection.data_received(TWO + THREE)
    application.answers[0](STORED)
    connection.shutdown()
    await turns()
    assert (application.by_asgi, transport.closed) == ([("/demo/two", b"1")], True)
    connection.connection_lost(None)
    assert application.held == 0


async def test_a_fault_of_ours_in_a_turn_ends_that_connection(application, transport, connection, monkeypatch, caplog):
    connection.data_received(ONE)
    connection.data_received(TWO + THREE)
    monkeypatch.setattr(protocol.BoundedProtocol, "_parse_piece", lambda *_: 1 // 0)
    monkeypatch.setattr(application, "takes", False)
    application.answers[0](STORED)
    await turns()
    assert transport.aborted
    assert "ZeroDivisionError" in caplog.text
    connection.connection_lost(None)
    assert application.held == 0


async def test_the_request_whose_turn_it_is_hears_that_the_client_is_gone_whoever_waits_behind_it(
    application, transport, connection
):
    connection.data_received(TWO + THREE)
    transport.closed = True
    connection.connection_lost(None)
    await turns()
    assert (application.by_asgi, transport.written) == ([], b"")


async def test_who_does_not_read_the_answer_is_dropped(application, transport, connection, clock):
    connection.data_received(ONE)
    connection.data_received(TWO)
    connection.pause_writing()
    clock.advance(REQUEST_SECONDS - 1)
    assert not transport.aborted
    connection.resume_writing()
    clock.advance(REQUEST_SECONDS)
    assert not transport.aborted
    connection.pause_writing()
    clock.advance(REQUEST_SECONDS)
    assert transport.aborted


async def test_nor_may_the_next_request_begin_that_wait_again_and_again(application, transport, connection, clock):
    connection.data_received(TWO * 3)
    connection.pause_writing()
    await turns()
    clock.advance(REQUEST_SECONDS)
    assert transport.aborted
    connection.connection_lost(None)
    await turns()


async def test_at_shutdown_sooner(application, transport, connection, clock):
    connection.data_received(ONE)
    connection.pause_writing()
    connection.shutdown()
    clock.advance(LAST_SECONDS)
    assert transport.aborted


async def test_a_closed_connection_whose_answers_are_not_read_is_dropped_too(application, transport, connection, clock):
    connection.data_received(ONE)
    application.answers[0](STORED)
    transport.unread = 1000
    clock.advance(connection.timeout_keep_alive)
    assert (transport.closed, transport.aborted) == (True, False)
    clock.advance(REQUEST_SECONDS)
    assert transport.aborted

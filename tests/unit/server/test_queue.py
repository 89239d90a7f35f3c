"""Requests that wait behind another on their connection: what they hold, and what becomes of them."""

from __future__ import annotations

from headrace.server.protocol import QUEUED_BYTES, REQUEST_SECONDS
from tests.support.http.fronted import ACCEPTED, BY_ASGI, ONE, STORED, THREE, TWO, turns


async def test_requests_that_wait_behind_another_are_counted_until_it_is_their_turn(application, transport, connection):
    connection.data_received(ONE)
    connection.data_received(TWO + THREE)
    assert application.held > len(TWO + THREE) + 2 * QUEUED_BYTES
    application.answers[0](STORED)
    await turns()
    assert (transport.written, application.held) == (ACCEPTED + BY_ASGI + BY_ASGI, 0)


async def test_where_there_is_no_room_to_wait_those_in_front_are_answered_and_the_connection_is_closed(
    application, transport, connection
):
    sent = TWO * 1000
    application.room = len(sent) + 10 * QUEUED_BYTES
    connection.data_received(ONE)
    connection.data_received(sent)
    assert len(sent) < application.held <= application.room
    application.answers[0](STORED)
    await turns()
    waited = len(application.by_asgi)
    assert 2 < waited < 10
    last = BY_ASGI.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
    assert transport.written == ACCEPTED + BY_ASGI * (waited - 1) + last
    assert (transport.closed, application.held) == (True, 0)
    connection.connection_lost(None)
    assert application.held == 0


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


async def test_the_request_whose_turn_it_is_hears_that_the_client_is_gone_whoever_waits_behind_it(
    application, transport, connection
):
    connection.data_received(TWO + THREE)
    transport.closed = True
    connection.connection_lost(None)
    await turns()
    assert (application.by_asgi, transport.written) == ([], b"")

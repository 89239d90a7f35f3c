"""The order of things on one connection with the short way in front; contract tests show the answers."""

from __future__ import annotations

import pytest

from headrace.server.protocol import SMALL_BODY
from headrace.server.refusals import ANSWERS
from headrace.server.states import ConnectionState
from tests.support.http.fronted import ACCEPTED, BY_ASGI, EVENT, ONE, STORED, THREE, TWO, turns


async def test_an_event_is_answered_when_the_handler_says_so(application, transport, connection):
    connection.data_received(ONE)
    await turns()
    assert (application.taken, transport.written) == ([ONE], b"")
    application.answers[0](STORED)
    assert transport.written == ACCEPTED
    assert application.by_asgi == []


async def test_what_is_pipelined_behind_an_event_waits_for_its_turn_and_nothing_more_is_read(
    application, transport, connection
):
    connection.data_received(ONE)
    connection.data_received(TWO + THREE)
    await turns()
    assert (application.taken, application.by_asgi) == ([ONE], [])
    assert not transport.reading
    application.answers[0](STORED)
    await turns()
    assert application.by_asgi == [("/demo/two", b"1"), ("/demo/three", b"1")]
    assert transport.written == ACCEPTED + BY_ASGI + BY_ASGI
    assert transport.reading
    connection.data_received(EVENT % b"four")
    assert application.taken == [ONE, EVENT % b"four"]


async def test_events_that_come_in_one_read_go_by_asgi_in_their_order(application, transport, connection):
    connection.data_received(ONE + TWO)
    await turns()
    assert (application.taken, application.by_asgi) == ([], [("/demo/one", b"1"), ("/demo/two", b"1")])
    connection.data_received(THREE)
    assert application.taken == [THREE]


async def test_what_the_short_way_declines_goes_by_asgi(application, transport, connection):
    application.takes = False
    connection.data_received(ONE)
    await turns()
    assert (application.by_asgi, transport.written) == ([("/demo/one", b"1")], BY_ASGI)
    application.takes = True
    connection.data_received(TWO)
    assert application.taken == [TWO]


async def test_a_head_ahead_of_its_body_is_kept_until_the_body_is_here(application, transport, connection):
    whole = ONE.replace(b"length: 1\r\n\r\n1", b"length: 9\r\n\r\n123456789")
    for piece in (whole[:-9], whole[-9:-5], whole[-5:-1]):
        connection.data_received(piece)
        await turns()
        assert (application.taken, application.by_asgi) == ([], [])
    connection.data_received(whole[-1:])
    assert application.taken == [whole]
    application.answers[0](STORED)
    assert transport.written == ACCEPTED


@pytest.mark.parametrize("more", [b"1" + TWO, b"1" + TWO[:10]], ids=["an event", "the beginning of one"])
async def test_what_is_kept_goes_by_asgi_where_more_than_its_body_comes(application, transport, connection, more):
    connection.data_received(ONE[:-1])
    connection.data_received(more)
    connection.data_received((ONE + TWO)[len(ONE[:-1] + more) :])
    await turns()
    assert (application.taken, application.by_asgi) == ([], [("/demo/one", b"1"), ("/demo/two", b"1")])
    assert application.held == 0


async def test_what_is_kept_goes_by_asgi_where_it_can_not_be_taken_when_it_is_here(application, transport, connection):
    connection.data_received(ONE[:-1])
    application.takes = False
    connection.data_received(ONE[-1:])
    await turns()
    assert (application.by_asgi, transport.written) == ([("/demo/one", b"1")], BY_ASGI)
    assert application.held == 0


@pytest.mark.parametrize(("length", "kept"), [(SMALL_BODY, True), (SMALL_BODY + 1, False)])
async def test_only_for_a_small_body_is_a_head_kept(application, transport, connection, length, kept):
    connection.data_received(ONE.replace(b"length: 1\r\n\r\n1", b"length: %d\r\n\r\n" % length))
    assert (connection._state is ConnectionState.KEPT, application.held > 0) == (kept, kept)
    connection.data_received(bytes(length))
    await turns()
    assert (len(application.taken), len(application.by_asgi)) == (kept, not kept)


async def test_nothing_is_left_to_the_short_way_in_the_middle_of_a_message(application, transport, connection):
    connection.data_received(ONE[:20])
    connection.data_received(ONE[20:])
    await turns()
    assert (application.taken, application.by_asgi) == ([], [("/demo/one", b"1")])


async def test_line_ends_in_front_of_an_event_cost_it_nothing(application, transport, connection):
    connection.data_received(b"\r\n")
    connection.data_received(ONE)
    assert application.taken == [ONE]


async def test_a_client_that_does_not_read_is_not_served_the_short_way(application, transport, connection):
    connection.pause_writing()
    connection.data_received(ONE)
    await turns()
    assert (application.taken, transport.written) == ([], b"")
    connection.resume_writing()
    await turns()
    assert transport.written == BY_ASGI


async def test_a_fault_of_ours_is_not_blamed_on_the_sender(application, transport, connection, caplog):
    application.fault = ZeroDivisionError("unforeseen")
    connection.data_received(ONE)
    await turns()
    assert transport.written == BY_ASGI
    assert "unforeseen" in caplog.text


async def test_an_answer_to_a_client_that_is_gone_goes_nowhere(application, transport, connection):
    connection.data_received(ONE)
    transport.closed = True
    connection.connection_lost(None)
    application.answers[0](STORED)
    assert transport.written == b""


async def test_garbage_behind_an_event_does_not_take_its_answer_and_closes(application, transport, connection):
    connection.data_received(ONE)
    connection.data_received(b"garbage\r\n")
    assert transport.written == b""
    application.answers[0](STORED)
    await turns()
    assert (transport.written, transport.closed) == (ACCEPTED + ANSWERS[400], True)

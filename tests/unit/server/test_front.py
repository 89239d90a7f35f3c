"""The order of things on one connection with the short way in front; what is answered, contract tests say."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import pytest
import uvicorn
from uvicorn.server import ServerState

from headrace.core.http import Response
from headrace.server.protocol import LAST_SECONDS, REQUEST_SECONDS, SMALL_BODY, BoundedProtocol
from headrace.server.states import ConnectionState
from tests.support.http.slow_clock import SlowClock
from tests.support.memory import taken_memory

EVENT = b"POST /demo/%b HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\n1"
STORED = Response(202)
ACCEPTED = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
CLOSING = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
REFUSED = b"HTTP/1.1 %b\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
BY_ASGI = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


class Transport(asyncio.Transport):
    """Remembers what was written; takes everything."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.reading = True
        self.closed = False

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.written += data

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


class Application:
    """Takes whole POSTs with a length the short way, answers them when told to; by ASGI it answers 200."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.answers: list[Callable[[Response], None]] = []
        self.by_asgi: list[tuple[str, bytes]] = []
        self.fault: Exception | None = None
        self.takes = True
        self.room = 1_000_000
        self.held = 0

    def short_way(self) -> Application:
        return self

    def take(self, data: bytes, answer: Callable[[Response], None]) -> int | None:
        if self.fault is not None:
            raise self.fault
        found = re.match(rb"POST \S+ HTTP/1\.1\r\nhost: x\r\ncontent-length: (\d+)\r\n\r\n", data)
        if found is None or not self.takes or (lacks := int(found[1]) + found.end() - len(data)) < 0:
            return None
        if not lacks:
            self.taken.append(data)
            self.answers.append(answer)
        return lacks

    def hold(self, size: int, held: int) -> bool:
        if self.held > held and self.held + size > self.room:
            return False
        self.held += size
        return True

    def let_go(self, size: int) -> None:
        self.held -= size

    async def __call__(self, scope, receive, send) -> None:
        body, more = b"", True
        while more:
            said = await receive()
            if said["type"] == "http.disconnect":
                return
            body, more = body + said["body"], said["more_body"]
        self.by_asgi.append((scope["path"], body))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})


@pytest.fixture
def application() -> Application:
    return Application()


@pytest.fixture
def transport() -> Transport:
    return Transport()


@pytest.fixture
def clock() -> SlowClock:
    return SlowClock()


@pytest.fixture
async def connection(application: Application, transport: Transport, clock: SlowClock) -> BoundedProtocol:
    settings = uvicorn.Config(application, http=BoundedProtocol, lifespan="off", proxy_headers=False)
    protocol = BoundedProtocol(config=settings, server_state=ServerState(), app_state={}, _loop=clock)
    protocol.connection_made(transport)
    return protocol


async def turns() -> None:
    """Let everything happen that can happen by itself."""
    for _ in range(10):
        await asyncio.sleep(0)


ONE, TWO, THREE = (EVENT % name for name in (b"one", b"two", b"three"))


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
    assert (transport.written, transport.closed) == (CLOSING, True)


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
    assert transport.written == REFUSED % b"503 Service Unavailable\r\nretry-after: 1"
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
    assert transport.written == REFUSED % b"408 Request Timeout"
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
    assert (transport.written, transport.closed) == (BY_ASGI + REFUSED % b"408 Request Timeout", True)


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
    clock.advance(REQUEST_SECONDS - 1)
    assert application.held == 20
    clock.advance(1)
    # An answer now would be taken for that of the event, which has the last word.
    assert (transport.written, application.held) == (ACCEPTED if idle else b"", 0)
    application.answers[0](STORED)
    assert (transport.written, transport.closed) == ((ACCEPTED if idle else b"") + CLOSING, True)


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
    assert transport.written == REFUSED % b"503 Service Unavailable\r\nretry-after: 1"
    assert (transport.closed, application.held) == (True, 990)


async def test_nor_is_there_room_for_the_next_piece(application, transport, connection):
    sent = ONE.replace(b"length: 1", b"length: 99")
    application.held, application.room = 1, len(sent) + 10
    connection.data_received(sent)
    assert application.held == 1 + len(sent)
    connection.data_received(bytes(50))
    assert transport.written == REFUSED % b"503 Service Unavailable\r\nretry-after: 1"
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

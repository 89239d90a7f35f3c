"""The order of things on one connection while an event is on its short way; what is answered, contract tests say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import uvicorn
from uvicorn.server import ServerState

from headrace.core.http import Response
from headrace.server.direct import DirectProtocol

EVENT = b"POST /demo/%b HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\n1"
STORED = Response(202, ((b"content-length", b"0"),))
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
    """Takes every event the short way and answers when told to; answers 200 to what comes by ASGI.

    Attributes:
        reads: takes what nobody has parsed, too.
    """

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.answers: list[Callable[[Response], None]] = []
        self.by_asgi: list[str] = []
        self.fault: Exception | None = None
        self.reads = False
        self.room = 1_000_000
        self.held = 0

    def short_way(self) -> Application:
        return self

    def offer(self, url: bytes, _headers: object, _body: bytes, answer: Callable[[Response], None]) -> bool:
        if self.fault is not None:
            raise self.fault
        self.taken.append(url)
        self.answers.append(answer)
        return True

    def offer_unread(self, data: bytes, answer: Callable[[Response], None]) -> bool:
        if self.fault is not None:
            raise self.fault
        if self.reads:
            self.taken.append(data)
            self.answers.append(answer)
        return self.reads

    def hold(self, size: int, held: int) -> bool:
        if self.held > held and self.held + size > self.room:
            return False
        self.held += size
        return True

    def let_go(self, size: int) -> None:
        self.held -= size

    async def __call__(self, scope, receive, send) -> None:
        self.by_asgi.append(scope["path"])
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})


@pytest.fixture
def application() -> Application:
    return Application()


@pytest.fixture
def transport() -> Transport:
    return Transport()


@pytest.fixture
async def connection(application: Application, transport: Transport) -> DirectProtocol:
    settings = uvicorn.Config(application, http=DirectProtocol, lifespan="off", proxy_headers=False)
    protocol = DirectProtocol(
        config=settings, server_state=ServerState(), app_state={}, _loop=asyncio.get_running_loop()
    )
    protocol.connection_made(transport)
    return protocol


async def turns() -> None:
    """Let everything happen that can happen by itself."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_an_event_is_answered_when_the_handler_says_so(application, transport, connection):
    connection.data_received(EVENT % b"one")
    await turns()
    assert (application.taken, transport.written) == ([b"/demo/one"], b"")
    application.answers[0](STORED)
    assert transport.written == ACCEPTED
    assert application.by_asgi == []


async def test_what_is_pipelined_behind_an_event_waits_for_its_turn_and_nothing_more_is_read(
    application, transport, connection
):
    connection.data_received(EVENT % b"one" + EVENT % b"two" + EVENT % b"three")
    await turns()
    assert (application.taken, application.by_asgi) == ([b"/demo/one"], [])
    assert not transport.reading
    application.answers[0](STORED)
    await turns()
    assert application.by_asgi == ["/demo/two", "/demo/three"]
    assert transport.written == ACCEPTED + BY_ASGI + BY_ASGI
    assert transport.reading
    connection.data_received(EVENT % b"four")
    assert application.taken == [b"/demo/one", b"/demo/four"]


@pytest.mark.parametrize(
    "older",
    [b"connection: keep-alive", b"Connection: Keep-Alive", b"proxy-connection: keep-alive"],
)
async def test_a_client_of_http_1_0_goes_the_way_of_uvicorn_also_where_it_keeps_its_connection(
    application, transport, connection, older
):
    connection.data_received((EVENT % b"one").replace(b"HTTP/1.1\r\n", b"HTTP/1.0\r\n%b\r\n" % older))
    await turns()
    assert (application.taken, application.by_asgi) == ([], ["/demo/one"])


@pytest.mark.parametrize("said", [b"connection: keep-alive", b"x: y"])
async def test_one_of_http_1_1_does_not_whether_it_says_so_or_not(application, transport, connection, said):
    connection.data_received((EVENT % b"one").replace(b"host: x", b"host: x\r\n" + said))
    await turns()
    assert (application.taken, application.by_asgi) == ([b"/demo/one"], [])


async def test_what_the_handler_reads_by_itself_is_answered_and_what_follows_waits_for_its_turn(
    application, transport, connection
):
    application.reads = True
    connection.data_received(EVENT % b"one")
    connection.data_received(EVENT % b"two")
    await turns()
    assert (application.taken, application.by_asgi, transport.written) == ([EVENT % b"one"], [], b"")
    application.answers[0](STORED)
    await turns()
    assert (application.by_asgi, transport.written) == (["/demo/two"], ACCEPTED + BY_ASGI)
    connection.data_received(EVENT % b"three")
    assert application.taken == [EVENT % b"one", EVENT % b"three"]


async def test_nothing_is_left_to_the_handler_to_read_in_the_middle_of_a_message(application, transport, connection):
    sent = EVENT % b"one"
    connection.data_received(sent[:-1])
    application.reads = True
    connection.data_received(sent[-1:])
    assert application.taken == [b"/demo/one"]


async def test_at_shutdown_an_event_that_the_handler_has_read_is_answered(application, transport, connection):
    application.reads = True
    connection.data_received(EVENT % b"one")
    connection.shutdown()
    application.answers[0](STORED)
    assert (transport.written, transport.closed) == (CLOSING, True)


@pytest.mark.parametrize("reads", [False, True])
async def test_a_client_that_does_not_read_is_not_served_the_short_way(application, transport, connection, reads):
    application.reads = reads
    connection.pause_writing()
    connection.data_received(EVENT % b"one")
    await turns()
    assert (application.taken, transport.written) == ([], b"")
    connection.resume_writing()
    await turns()
    assert transport.written == BY_ASGI


async def test_a_fault_of_ours_is_not_blamed_on_the_sender(application, transport, connection, caplog):
    application.fault = ZeroDivisionError("unforeseen")
    connection.data_received(EVENT % b"one")
    await turns()
    assert transport.written == BY_ASGI
    assert "unforeseen" in caplog.text


async def test_an_answer_to_a_client_that_is_gone_goes_nowhere(application, transport, connection):
    connection.data_received(EVENT % b"one")
    transport.closed = True
    connection.connection_lost(None)
    application.answers[0](STORED)
    assert transport.written == b""


async def test_at_shutdown_the_event_on_its_way_is_answered_and_the_connection_closed(
    application, transport, connection
):
    connection.data_received(EVENT % b"one")
    connection.shutdown()
    assert not transport.closed
    application.answers[0](STORED)
    assert (transport.written, transport.closed) == (CLOSING, True)


async def test_at_shutdown_an_idle_connection_is_closed_at_once(application, transport, connection):
    connection.data_received(EVENT % b"one")
    application.answers[0](STORED)
    connection.shutdown()
    assert transport.closed


async def test_at_shutdown_whoever_is_in_the_middle_of_an_event_may_finish_it(application, transport, connection):
    whole = EVENT % b"one"
    connection.data_received(whole[:-1])
    connection.shutdown()
    assert not transport.closed
    connection.data_received(whole[-1:])
    await turns()
    assert transport.written == BY_ASGI.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
    assert transport.closed
    connection.connection_lost(None)


async def test_at_shutdown_whoever_is_in_the_middle_of_an_event_for_no_host_is_told_so(
    application, transport, connection
):
    connection.data_received((EVENT % b"one").replace(b"host", b"hose")[:-1])
    connection.shutdown()
    assert transport.written == REFUSED % b"400 Bad Request"
    assert transport.closed
    connection.connection_lost(None)


@pytest.mark.parametrize("begun", [20, -1], ids=["in the head", "in the body"])
async def test_what_is_on_its_way_in_is_held_until_it_is_here(application, transport, connection, begun):
    whole = EVENT % b"one"
    connection.data_received(whole[:begun])
    assert application.held == len(whole[:begun])
    connection.data_received(whole[begun:])
    assert (application.taken, application.held) == ([b"/demo/one"], 0)
    connection.data_received(whole[:begun])
    connection.connection_lost(None)
    assert application.held == 0


async def test_of_what_asgi_reads_nothing_is_held_here(application, transport, connection):
    connection.data_received((EVENT % b"one").replace(b"length: 1", b"length: 900000"))
    await turns()
    connection.data_received(bytes(30_000))
    assert (application.by_asgi, application.held) == (["/demo/one"], 0)
    connection.connection_lost(None)


@pytest.mark.parametrize("begun", [20, -1], ids=["in the head", "in the body"])
async def test_where_there_is_no_room_for_what_is_on_its_way_in_it_is_refused(
    application, transport, connection, begun
):
    application.room, application.held = 1000, 990
    connection.data_received((EVENT % b"one")[:begun])
    assert transport.written == REFUSED % b"503 Service Unavailable\r\nretry-after: 1"
    assert (transport.closed, application.held) == (True, 990)

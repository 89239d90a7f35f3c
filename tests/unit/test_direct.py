"""The order of things on one connection while an event is on its short way; what is answered, contract tests say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import uvicorn
from uvicorn.server import ServerState

from headrace.core.http import Response
from headrace.host.direct import DirectProtocol

EVENT = b"POST /demo/%b HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\n1"
STORED = Response(202, ((b"content-length", b"0"),))
ACCEPTED = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
CLOSING = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
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
    """Takes every event the short way and answers when told to; answers 200 to what comes by ASGI."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.answers: list[Callable[[Response], None]] = []
        self.by_asgi: list[str] = []
        self.fault: Exception | None = None

    def short_way(self) -> Application:
        return self

    def offer(self, url: bytes, _headers: object, _body: bytes, answer: Callable[[Response], None]) -> bool:
        if self.fault is not None:
            raise self.fault
        self.taken.append(url)
        self.answers.append(answer)
        return True

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


async def test_a_client_that_does_not_read_is_not_served_the_short_way(application, transport, connection):
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

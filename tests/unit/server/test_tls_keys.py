"""New keys of TLS 1.3 without end, from OpenSSL's own client: Python's can't ask for any."""

from __future__ import annotations

import asyncio
import ctypes
import ssl

import trustme

from headrace.server.crowd import Crowd
from headrace.server.tls import TURN_RECORDS, TlsConnection
from tests.support.http.fronted import Transport
from tests.support.waiting import until


class Client:
    """A client without a socket."""

    def __init__(self) -> None:
        self._ssl, pointer = ctypes.CDLL("libssl.so.3"), ctypes.c_void_p
        for name in ("TLS_client_method", "SSL_CTX_new", "SSL_new", "BIO_s_mem", "BIO_new"):
            getattr(self._ssl, name).restype = pointer
        call = self._ssl
        self._tls = pointer(call.SSL_new(pointer(call.SSL_CTX_new(pointer(call.TLS_client_method())))))
        self._in, self._out = (pointer(call.BIO_new(pointer(call.BIO_s_mem()))) for _ in range(2))
        call.SSL_set_bio(self._tls, self._in, self._out)
        call.SSL_set_connect_state(self._tls)

    def shake_hands(self, answer: bytes = b"") -> bytes:
        if answer:
            self._ssl.BIO_write(self._in, answer, len(answer))
        self._ssl.SSL_do_handshake(self._tls)
        return self._said()

    def new_key(self) -> bytes:
        assert self._ssl.SSL_key_update(self._tls, 0) == 1
        return self.shake_hands()

    def say(self, text: bytes) -> bytes:
        self._ssl.SSL_write(self._tls, text, len(text))
        return self._said()

    def _said(self) -> bytes:
        room = ctypes.create_string_buffer(64 * 1024)
        said = self._ssl.BIO_read(self._out, room, len(room))
        return room.raw[: max(0, said)]


class Inside(asyncio.Protocol):
    def __init__(self) -> None:
        self.made, self.heard = False, b""

    def connection_made(self, _transport: asyncio.BaseTransport) -> None:
        self.made = True

    def data_received(self, data: bytes) -> None:
        self.heard += data


async def test_of_new_keys_without_end_each_turn_takes_a_few() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost").configure_cert(context)
    transport, inside, client = Transport(), Inside(), Client()
    connection = TlsConnection(context, lambda: inside, Crowd(), set(), asyncio.get_running_loop())
    connection.connection_made(transport)
    connection.data_received(client.shake_hands())
    await until("it has answered", lambda: bool(transport.written), 5)
    connection.data_received(client.shake_hands(bytes(transport.written)))
    await until("the handshake is over", lambda: inside.made, 5)

    keys = b"".join(client.new_key() for _ in range(10 * TURN_RECORDS))
    connection.data_received(keys + client.say(b"hello"))
    for _ in range(9):
        assert not transport.reading
        assert not inside.heard
        await asyncio.sleep(0)
    await until("all have had their turn", lambda: inside.heard == b"hello", 5)
    assert transport.reading

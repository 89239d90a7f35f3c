"""An HTTP request and answer as values, between the ASGI shell and the stories."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from headrace.core import json_text

_encode = partial(json.dumps, ensure_ascii=False)
Headers = tuple[tuple[bytes, bytes], ...]


class Request(NamedTuple):
    """A request before its body is read. A tuple, since one is made per event.

    Attributes:
        path: as it was sent, without its query.
        headers: names in lower case.
        fields: the first value of each name.
        peer: the address that the connection comes from; empty where the server does not tell.
        secure: it came by TLS.
    """

    method: str
    path: str
    headers: Sequence[tuple[bytes, bytes]]
    fields: Mapping[bytes, bytes]
    peer: str = ""
    secure: bool = False

    def header(self, name: bytes) -> bytes | None:
        """The first header of that lower-case name."""
        return self.fields.get(name)


def request(
    method: str, path: str, headers: Sequence[tuple[bytes, bytes]], peer: str = "", *, secure: bool = False
) -> Request:
    """A request whose headers are gone through once."""
    return Request(method, path, headers, dict(reversed(headers)), peer, secure)


class Response(NamedTuple):
    status: int
    headers: Headers = ()
    body: bytes = b""


class HttpAnswer(NamedTuple):
    """The answer to one POST. A tuple, since one is made per event.

    Attributes:
        status: None when there was no answer; `error` then says why.
        body: at most as many bytes as the caller asked for; `truncated` when the answer had more.
        stale: a connection that had been kept ended before the first byte of an answer. The server may just have been
            closing it, and never have read the request, or have read it; nobody can know.
    """

    status: int | None
    headers: Headers = ()
    body: bytes = b""
    truncated: bool = False
    error: str = ""
    stale: bool = False

    def header(self, name: bytes) -> bytes | None:
        """The first header of that lower-case name."""
        return next((value for key, value in self.headers if key == name), None)


def json_response(status: int, body: object, headers: Headers = ()) -> Response:
    return Response(status, ((b"content-type", b"application/json"), *headers), _json(body))


def _json(body: object) -> bytes:
    # Half of a surrogate pair has no UTF-8, so it is written as an escape.
    return json_text.in_pieces(body, 2, _encode).encode("utf-8", "backslashreplace")


def problem(
    status: int,
    title: str,
    detail: str,
    *,
    headers: Headers = (),
    faults: Sequence[Mapping[str, str]] = (),
) -> Response:
    """An answer that explains itself, as `application/problem+json` (RFC 9457)."""
    body: dict[str, object] = {"title": title, "status": status, "detail": detail}
    if faults:
        body["faults"] = list(faults)
    return Response(status, ((b"content-type", b"application/problem+json"), *headers), _json(body) + b"\n")

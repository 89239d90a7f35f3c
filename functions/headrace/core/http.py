"""An HTTP request and answer as values, between the ASGI shell and the stories."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

Headers = tuple[tuple[bytes, bytes], ...]


class Request(NamedTuple):
    """A request before its body is read. A tuple, since one is made per event.

    Attributes:
        path: as it was sent, without its query.
        headers: names in lower case.
        fields: the first value of each name.
        peer: the address that the connection comes from; empty where the server does not tell.
    """

    method: str
    path: str
    headers: Sequence[tuple[bytes, bytes]]
    fields: Mapping[bytes, bytes]
    peer: str = ""

    def header(self, name: bytes) -> bytes | None:
        """The first header of that lower-case name."""
        return self.fields.get(name)


def request(method: str, path: str, headers: Sequence[tuple[bytes, bytes]], peer: str = "") -> Request:
    """A request whose headers are gone through once."""
    return Request(method, path, headers, dict(reversed(headers)), peer)


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
    return _text(body, 2).encode("utf-8", "backslashreplace")


def _text(value: object, depth: int) -> str:
    """JSON in pieces of that depth: no other thread runs while the encoder writes a piece."""
    match value:
        case dict() if depth:
            named = (f"{json.dumps(name, ensure_ascii=False)}: {_text(one, depth - 1)}" for name, one in value.items())
            return f"{{{', '.join(named)}}}"
        case list() if depth:
            return f"[{', '.join([_text(one, depth - 1) for one in value])}]"
        case _:
            return json.dumps(value, ensure_ascii=False)


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

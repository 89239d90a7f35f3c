"""The ASGI shell: probes, bounded bodies, the shared token, and our errors as HTTP answers.

This is the one place that catches `HeadraceError` on behalf of an HTTP caller.
"""

from __future__ import annotations

import asyncio
import binascii
import hmac
import json
from collections.abc import Awaitable, Callable, MutableMapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from headrace.core import caller_token
from headrace.core.delivery.lease import RETRY_AFTER
from headrace.core.errors import HeadraceError, InvalidEvent, InvalidSpec, Misconfigured, Refused, Unavailable
from headrace.core.http import Headers, Request, Response, problem, request
from headrace.core.installation.function_settings import TokenSettings
from headrace.io.process import environment, log

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

LIVENESS = ("/health/liveness", "/healthz")
READINESS = ("/health/readiness", "/readyz")

_log = log.get("web")
# Of what was refused; "Refused" for any other status.
_TITLES = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not found",
    409: "Conflict",
    413: "Too large",
    500: "Internal error",
    503: "Not available",
    507: "Full",
}
# With every 401 (RFC 9110, section 11.6.1).
_BEARER: Headers = ((b"www-authenticate", b"Bearer"),)


class ClientGone(HeadraceError):
    """The caller closed the connection; nobody waits for an answer any more."""


def request_of(scope: Scope) -> Request:
    raw, client = scope.get("raw_path"), scope.get("client")
    path = scope["path"] if raw is None else raw.decode("latin-1")
    # A tuple: uvicorn goes on writing trailers to the list.
    secure = scope.get("scheme") == "https"
    return request(scope["method"], path, tuple(scope["headers"]), client[0] if client else "", secure=secure)


def kubelet_probe(request: Request) -> bool:
    """Do the headers mark a probe, whatever its path? Source: the rules of Knative's own receiver."""
    return (
        (request.header(b"user-agent") or b"").startswith(b"kube-probe/")
        or request.header(b"k-kubelet-probe") is not None
        or (request.header(b"k-network-probe") is not None and request.header(b"k-network-hash") is not None)
    )


async def read_body(
    receive: Receive, request: Request, limit: int, charge: Callable[[int], None] = lambda _: None
) -> bytes:
    """The whole body.

    Args:
        charge: called with the number of bytes of every piece as it comes; an error of it ends the reading.

    Raises:
        Refused: 413, as soon as the body is known to exceed `limit` bytes.
        ClientGone: the caller went away in the middle of the body.
    """
    announced = request.header(b"content-length")
    if announced is not None and announced.isdigit() and int(announced) > limit:
        raise _too_large(limit)
    message = await receive()
    body: bytes = message.get("body", b"")
    if message["type"] == "http.request" and not message.get("more_body", False):
        if len(body) > limit:
            raise _too_large(limit)
        charge(len(body))
        return body
    # Not a list of pieces: a small piece takes thirty times the memory of its bytes.
    whole = bytearray(body)
    charge(len(body))
    while message.get("more_body", False):
        if len(whole) > limit:
            raise _too_large(limit)
        message = await receive()
        piece = message.get("body", b"")
        whole += piece
        charge(len(piece))
    if message["type"] == "http.disconnect":
        raise ClientGone
    if len(whole) > limit:
        raise _too_large(limit)
    return bytes(whole)


async def disconnected(receive: Receive) -> None:
    """Return when the caller has closed the connection; only after the body has been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


class Early:
    """An answer that begins before its end is known: 200 and a header now, JSON later.

    Attributes:
        lines: the body is several lines of JSON, the last of them the answer, for a caller that asked for lines.
        begun: the head has been sent; a later failure stands in the body only.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = False
        self.lines = False

    async def begin(self, *headers: tuple[bytes, bytes]) -> None:
        self.begun = True
        named = [(b"content-type", b"application/x-ndjson" if self.lines else b"application/json"), *headers]
        await self._send({"type": "http.response.start", "status": 200, "headers": named})
        # White space in front of JSON: a server that holds the head until the body begins sends it now.
        await self._send({"type": "http.response.body", "body": b"\n", "more_body": True})

    async def say(self, line: bytes) -> None:
        """One more line, with its end."""
        if not self.begun:
            await self.begin()
        await self._send({"type": "http.response.body", "body": line, "more_body": True})


async def answer(work: Awaitable[Response], send: Send, extra: Headers = (), early: Early | None = None) -> None:
    """Await a story and send its answer, or the answer that its error means.

    Args:
        early: the answer that the story may have begun.
    """
    try:
        response = await work
    except ClientGone:
        return
    except HeadraceError as error:
        response = response_of(error)
    if early is not None and early.begun:
        await send({"type": "http.response.body", "body": _late(response)})
        return
    await send_response(send, response, extra)


def _late(response: Response) -> bytes:
    """The body of an answer whose head already said 200: status and Retry-After stand in the body only."""
    headers = dict(response.headers)
    if headers.get(b"content-type") != b"application/problem+json" or b"retry-after" not in headers:
        return response.body
    return json.dumps({**json.loads(response.body), RETRY_AFTER: int(headers[b"retry-after"])}).encode() + b"\n"


def response_of(error: HeadraceError) -> Response:
    """The status table of our errors."""
    match error:
        case InvalidEvent():
            faults = [{"attribute": fault.attribute, "problem": fault.problem} for fault in error.faults]
            return problem(400, "Not a valid CloudEvent", str(error), faults=faults)
        case InvalidSpec():
            return problem(400, f"Invalid {error.field}", str(error))
        case Refused():
            headers = _BEARER if error.status == 401 else _retry_after(error.retry_after)
            return problem(error.status, _TITLES.get(error.status, "Refused"), str(error), headers=headers)
        case Unavailable():
            return problem(503, "Not available", str(error), headers=_retry_after(error.retry_after))
        case Misconfigured():
            _log.error("misconfigured", field=error.field, error=str(error))
            return problem(500, "Misconfigured", str(error))
        case _:
            return problem(500, "Failed", str(error))


async def send_response(send: Send, response: Response, extra: Headers = ()) -> None:
    await send(_start(response.status, response.headers, extra, len(response.body)))
    await send({"type": "http.response.body", "body": response.body})


def with_headers(response: Response, extra: Headers) -> Response:
    """An answer with those headers of `extra` that it lacks."""
    return response._replace(headers=_joined(response.headers, extra))


@lru_cache(64)
def _start(status: int, headers: Headers, extra: Headers, length: int) -> MutableMapping[str, Any]:
    """The first message of an answer. The few common ones are made once: no part of a server changes them."""
    named = (*_joined(headers, extra), (b"content-length", str(length).encode()))
    return {"type": "http.response.start", "status": status, "headers": named}


def _joined(headers: Headers, extra: Headers) -> Headers:
    present = {name for name, _ in headers}
    return (*headers, *[header for header in extra if header[0] not in present])


class Token:
    """The shared token of `forward` and `reconcile`; a mounted file is read again at each check, so it can rotate."""

    def __init__(self, settings: TokenSettings) -> None:
        self._settings = settings

    @classmethod
    def configured(cls) -> Token:
        """The token of this process's environment.

        Raises:
            Misconfigured: there is none.
        """
        token = cls(environment.fill(TokenSettings))
        if token._settings.caller_digest is None:
            token.load()
        return token

    async def refusal(self, request: Request) -> Response | None:
        """None when the caller shows the token, else the 401.

        Raises:
            Misconfigured: this process has no token to compare with.
        """
        bearer = _token_of(request)
        if (wanted := self._settings.caller_digest) is not None:
            good = hmac.compare_digest(caller_token.digest(bearer), wanted)
            detail = "send what follows from the shared token for this host (ADR 030) as Authorization: Bearer …"
        else:
            token = await asyncio.to_thread(self.load) if self._settings.token_file else self.load()
            good = hmac.compare_digest(bearer, token)
            detail = "send the shared token of this installation as Authorization: Bearer …"
        if good:
            return None
        return response_of(Refused(detail, status=401))

    def load(self) -> bytes:
        """The token as it is now.

        Raises:
            Misconfigured: there is none, it is empty, or its file can't be read.
        """
        token = self._settings.token.get_secret_value() if self._settings.token else ""
        if self._settings.token_file:
            try:
                token = Path(self._settings.token_file).read_text(encoding="utf-8").strip()
            except OSError as error:
                raise Misconfigured(
                    f"HEADRACE_TOKEN_FILE can't be read: {error}", field="HEADRACE_TOKEN_FILE"
                ) from error
            except UnicodeDecodeError:
                # The error's text would tell a byte of the token.
                raise Misconfigured(
                    "HEADRACE_TOKEN_FILE holds bytes that are not UTF-8: store the token as text",
                    field="HEADRACE_TOKEN_FILE",
                ) from None
        if not token:
            raise Misconfigured(
                "no shared token: set HEADRACE_TOKEN_FILE (or HEADRACE_TOKEN), or anyone could call this function",
                field="HEADRACE_TOKEN_FILE",
            )
        return token.encode(errors="surrogateescape")


def _token_of(request: Request) -> bytes:
    """The token that a caller shows; empty for none.

    It comes as a bearer token, or as the password of Basic: a stock Metacontroller can send no header of its own, but
    it sends the user and password of its URL as Basic.
    """
    scheme, _, rest = (request.header(b"authorization") or b"").partition(b" ")
    match scheme.lower():
        case b"bearer":
            return rest.strip()
        case b"basic":
            try:
                return binascii.a2b_base64(rest, strict_mode=True).partition(b":")[2]
            except binascii.Error:
                return b""
        case _:
            return b""


def _too_large(limit: int) -> Refused:
    return Refused(f"the body exceeds {limit} bytes: send a smaller event, or a reference to its data", status=413)


def _retry_after(seconds: float | None) -> Headers:
    # Whole seconds, at least one: the header knows no fractions.
    return () if seconds is None else ((b"retry-after", str(max(1, round(seconds))).encode()),)

"""The API server behind a door that tests can close: counts what is asked of it, and answers for it when told to.

Plain HTTP on the loopback in front of the real server, so that connections can be cut, watches ended and conflicts made
without touching what other tests use.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import aiohttp
from aiohttp import web

from tests.support.kube.control_plane import ControlPlane
from tests.support.nats.nats_server import free_port

PASSED_ON = ("Content-Type", "Accept")


@dataclass(frozen=True, slots=True)
class Asked:
    """One request; `verb` is watch for a GET that watches."""

    verb: str
    path: str
    body: bytes

    @property
    def json(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.body)
        return found


class ApiRelay:
    """Use it as an asynchronous context manager.

    Attributes:
        asked: all requests so far.
        refuses: gives the status to answer a request with in place of the server, or None to pass it on.
    """

    def __init__(self, control_plane: ControlPlane, directory: Path) -> None:
        self.asked: list[Asked] = []
        self.refuses: Callable[[Asked], int | None] = lambda _: None
        self.port = free_port()
        self.kubeconfig = directory / f"kubeconfig-{self.port}"
        self._control_plane = control_plane
        self._watching: set[asyncio.Task[None]] = set()
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> ApiRelay:
        self._session = aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {self._control_plane.token}"},
            connector=aiohttp.TCPConnector(ssl=self._control_plane.context(), limit=0),
            auto_decompress=False,
        )
        config = {
            "clusters": [{"name": "relay", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
            "users": [{"name": "admin", "user": {"token": self._control_plane.token}}],
            "contexts": [{"name": "relay", "context": {"cluster": "relay", "user": "admin"}}],
            "current-context": "relay",
        }
        self.kubeconfig.write_text(json.dumps(config), encoding="utf-8")
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
        await self._session.close()

    async def open(self) -> None:
        """Serve; the server can be reached from now on."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()

    async def close(self) -> None:
        """Cut every connection and take no other, as a server that is restarted."""
        if self._runner is not None:
            self.end_watches()
            await self._runner.cleanup()
            self._runner = None

    def end_watches(self) -> None:
        """Break off all watches."""
        for task in list(self._watching):
            task.cancel()

    def counted(self, since: int = 0) -> Counter[str]:
        """Requests from the one with that number on, by verb."""
        return Counter(one.verb for one in self.asked[since:])

    def of(self, verb: str, part: str = "", since: int = 0) -> list[Asked]:
        """Requests of a verb, with this in their path."""
        return [one for one in self.asked[since:] if one.verb == verb and part in one.path]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        watches = request.query.get("watch") == "true"
        asked = Asked("watch" if watches else request.method, request.path, body)
        self.asked.append(asked)
        status = self.refuses(asked)
        if status is not None:
            return web.json_response({"kind": "Status", "code": status, "message": "as the test wants"}, status=status)
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        url = self._control_plane.url + request.path_qs
        timeout = aiohttp.ClientTimeout(total=None)
        async with self._session.request(
            request.method, url, data=body or None, headers=headers, timeout=timeout
        ) as answer:
            response = web.StreamResponse(status=answer.status, headers={"Content-Type": "application/json"})
            await response.prepare(request)
            passing = asyncio.ensure_future(_pass_on(answer, response))
            if watches:
                self._watching.add(passing)
            try:
                with suppress(asyncio.CancelledError):
                    await passing
            finally:
                passing.cancel()
                self._watching.discard(passing)
            if watches and request.transport is not None:
                request.transport.abort()
            return response


async def _pass_on(answer: aiohttp.ClientResponse, response: web.StreamResponse) -> None:
    with suppress(ConnectionError, aiohttp.ClientError):
        async for chunk in answer.content.iter_any():
            await response.write(chunk)
        await response.write_eof()

"""Calls `reconcile`: Metacontroller's CompositeController hooks over HTTP.

Sends what is observed, gives back what is wanted; decides nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import aiohttp

from headrace.core.errors import InvalidSpec, Unavailable
from headrace_operator.hook_calls import HookCalls
from headrace_operator.lease_client import refusal

# Many consumers are ensured one after the other, each with a few calls to NATS.
HOOK_SECONDS = 60.0
CONNECT_SECONDS = 10.0
JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """What `reconcile` wants.

    Attributes:
        status: the parent's whole new status.
        children: desired objects.
        resync_after: seconds until it wants to be asked again; None: when something changes.
        finalized: nothing is left of the parent; only with finalize.
    """

    status: Mapping[str, Any] = field(default_factory=dict)
    children: tuple[Mapping[str, Any], ...] = ()
    resync_after: float | None = None
    finalized: bool = False


class HookClient:
    """Calls the hooks; made inside the loop that uses it, closed by its owner.

    Attributes:
        calls: how they went.
    """

    def __init__(self, token: str) -> None:
        self.calls = HookCalls()
        self._session = aiohttp.ClientSession(
            # A kept connection may lead to a function that is just being scaled away.
            connector=aiohttp.TCPConnector(force_close=True),
            headers={"Authorization": f"Bearer {token}"},
            timeout=aiohttp.ClientTimeout(total=HOOK_SECONDS, sock_connect=CONNECT_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self._session.close()

    async def sync(self, url: str, parent: Mapping[str, Any]) -> HookAnswer:
        """Ask for the desired state of a parent.

        Args:
            parent: the whole object, `status` as it was last answered.

        Raises:
            Unavailable: reconcile can't be reached, or has no NATS.
            Refused: it will not answer: 400 malformed parent, 401 token.
            InvalidSpec: the parent can't be written as JSON.
        """
        with self.calls.timed("sync"):
            return await self._call(f"{url}/sync", parent, finalizing=False)

    async def finalize(self, url: str, parent: Mapping[str, Any]) -> HookAnswer:
        """Ask for the parent's end; to be repeated until `finalized`. Raises as `sync`."""
        with self.calls.timed("finalize"):
            return await self._call(f"{url}/finalize", parent, finalizing=True)

    async def _call(self, url: str, parent: Mapping[str, Any], *, finalizing: bool) -> HookAnswer:
        body = written(parent, finalizing=finalizing)
        try:
            async with self._session.post(url, data=body, headers=JSON, allow_redirects=False) as answer:
                text = await answer.text(errors="replace")
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unavailable(f"reconcile at {url}: {error or type(error).__name__}") from error
        if answer.status == 200:
            return parsed(text, url)
        raise refusal("reconcile", url, answer.status, text, answer.headers)


def written(parent: Mapping[str, Any], *, finalizing: bool) -> bytes:
    """The request's JSON.

    Raises:
        InvalidSpec: the parent holds what JSON can't, or itself.
    """
    body = {"controller": {}, "parent": parent, "children": {}, "related": {}, "finalizing": finalizing}
    try:
        return json.dumps(body, allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidSpec(f"the object can't be written as JSON: {error}", field="parent") from error


def parsed(text: str, url: str) -> HookAnswer:
    """Read the answer's JSON.

    Raises:
        Unavailable: something else than reconcile has answered.
    """
    try:
        body = json.loads(text)
        seconds = float(body.get("resyncAfterSeconds") or 0.0)
        return HookAnswer(
            status=dict(body.get("status") or {}),
            children=tuple(body.get("children") or ()),
            resync_after=seconds if seconds > 0 else None,
            finalized=bool(body.get("finalized", False)),
        )
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise Unavailable(f"{url} answered 200, but not as reconcile does: {text[:100]!r}") from error

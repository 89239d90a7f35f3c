"""Calls the hook of `reconcile` over HTTP.

Sends a request and gives back the answer; what is in them is `headrace.core.channel.hook`'s. It decides nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar

import aiohttp

from headrace.core import json_text
from headrace.core.channel.customize import CustomizeAnswer
from headrace.core.channel.hook import HookRequest, HookResponse
from headrace.core.errors import Unavailable
from headrace.io.process import tls
from headrace.io.process.calculation import calculate
from headrace_operator.channels.hook_calls import HookCalls
from headrace_operator.scaling.lease_client import refusal

# Many consumers are ensured one after the other, each with a few calls to NATS.
HOOK_SECONDS = 60.0
CONNECT_SECONDS = 10.0
JSON = {"Content-Type": "application/json"}

Form = TypeVar("Form")


class HookClient:
    """Calls the hooks; made inside the loop that uses it, closed by its owner.

    Attributes:
        calls: how many there were, by result, and how long they took.
    """

    def __init__(self, token: str | Callable[[], str]) -> None:
        """Args:
        token: the shared token, or a function that gives it where it may change.
        """
        self.calls = HookCalls()
        self._token = token if callable(token) else lambda: token
        self._trust = tls.SystemTrust()
        self._session = aiohttp.ClientSession(
            # A kept connection may lead to a function that is just being scaled away.
            connector=aiohttp.TCPConnector(force_close=True),
            timeout=aiohttp.ClientTimeout(total=HOOK_SECONDS, sock_connect=CONNECT_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self._session.close()

    async def customize(self, url: str, parent: dict[str, Any]) -> CustomizeAnswer:
        """Ask which other objects are to be observed for a channel, and its annotations. Raises as `call`."""
        answer = await self._post(f"{url}/customize", HookRequest(parent).to_json())
        return await _parse_apart(answer, url, CustomizeAnswer.from_json)

    async def call(self, url: str, request: HookRequest, related: bytes | None = None) -> HookResponse:
        """Ask for the desired state of a channel, or for its end; the caller repeats the latter until `finalized`.

        Args:
            request: its parent is the whole object, with the status that was answered last.
            related: in the form that `HookRequest.to_json` takes.

        Raises:
            Unavailable: reconcile can't be reached or has no NATS, or another program has answered.
            Refused: reconcile will not answer: 400 malformed parent, 401 token.
            InvalidSpec: the parent can't be written as JSON.
        """
        verb = "finalize" if request.finalizing else "sync"
        things = len(related or b"") // 1024 + sum(map(len, request.children.values()))
        body = await calculate(things, request.to_json, related)
        with self.calls.timed(verb):
            return await _parse_apart(await self._post(f"{url}/{verb}", body), url, HookResponse.from_json)

    async def _post(self, url: str, body: bytes) -> str:
        headers = {**JSON, "Authorization": f"Bearer {self._token()}"}
        try:
            async with self._session.post(
                url, data=body, headers=headers, ssl=self._trust.at(url), allow_redirects=False
            ) as answer:
                text = await answer.text(errors="replace")
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unavailable(f"reconcile at {url}: {error or type(error).__name__}") from error
        if answer.status == 200:
            return text
        raise refusal("reconcile", url, answer.status, text, answer.headers)


async def _parse_apart(text: str, url: str, from_json: Callable[[Mapping[str, Any]], Form]) -> Form:
    return await calculate(len(text) // 1024, parse, text, url, from_json)


def parse(text: str, url: str, from_json: Callable[[Mapping[str, Any]], Form]) -> Form:
    """Read the answer's JSON.

    Raises:
        Unavailable: another program than reconcile has answered.
    """
    try:
        return from_json(json.loads(text, object_hook=json_text.given))
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise Unavailable(f"{url} answered 200, but not as reconcile does: {text[:100]!r}") from error

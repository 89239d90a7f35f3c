"""The effects of `reconcile` in a NATS that only another `reconcile` is let into, which is asked over HTTP.

Each method is that of `headrace.io.admin.Admin`, and raises what it raises there; Unavailable also when nobody answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import aiohttp

from headrace.core import lent, named
from headrace.core.action import Action, Outcome
from headrace.core.errors import Unavailable
from headrace.core.named import Named
from headrace.core.raw_config import Config

# That one waits 5 s for its own NATS.
CALL_SECONDS = 20.0
CONNECT_SECONDS = 5.0


class Calls:
    """Calls of all of them; made inside the loop that uses it.

    Attributes:
        token_at: what to show at a URL.
    """

    def __init__(self, token_at: Callable[[str], str], reach: Callable[[str], str] = str) -> None:
        """Args:
        reach: where a URL leads, if not there; for tests.
        """
        self._token_at = token_at
        self._reach = reach
        self._session = aiohttp.ClientSession(
            # One that is kept may lead to a pod that is going.
            connector=aiohttp.TCPConnector(force_close=True),
            timeout=aiohttp.ClientTimeout(total=CALL_SECONDS, sock_connect=CONNECT_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        )

    async def ask(self, url: str, call: lent.Call) -> Any:
        """One call; its result as JSON has it.

        Raises:
            Unavailable: nobody answers there, or not as `reconcile` does; or it was that over there.
            Refused: as the other side has met it.
        """
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._token_at(url)}"}
        where = self._reach(url)
        try:
            async with self._session.post(
                where + lent.PATH, data=call.to_bytes(), headers=headers, allow_redirects=False
            ) as answer:
                body = await answer.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unavailable(f"the reconcile at {url} can't be reached: {error or type(error).__name__}") from error
        if answer.status != 200:
            raise Unavailable(f"the reconcile at {url} answered {answer.status}: {body[:200]!r}")
        return lent.read_answer(body)

    async def close(self) -> None:
        await self._session.close()


class Elsewhere:
    """The NATS behind one URL."""

    def __init__(self, calls: Calls, url: str) -> None:
        self._calls = calls
        self._url = url

    async def named(self) -> Named:
        """What the ConfigMap over there names."""
        try:
            return named.from_json(await self._ask("named"))
        except (ValueError, KeyError, TypeError):
            raise Unavailable(f"the reconcile at {self._url} is of another version: wait for its new pods") from None

    async def stream(self, name: str) -> Config | None:
        return cast("Config | None", await self._ask("stream", name))

    async def count(self, stream: str, subjects: str) -> int:
        return int(await self._ask("count", stream, subjects))

    async def consumers(self, stream: str) -> list[Config]:
        return cast("list[Config]", await self._ask("consumers", stream))

    async def info(self, stream: str, subjects: str = "") -> Mapping[str, Any] | None:
        return cast("Mapping[str, Any] | None", await self._ask("info", stream, subjects))

    async def consumer_infos(self, stream: str) -> Sequence[Mapping[str, Any]]:
        return cast("Sequence[Mapping[str, Any]]", await self._ask("consumer_infos", stream))

    async def number(self, stream: str, subject: str) -> int:
        return int(await self._ask("number", stream, subject))

    async def add(self, stream: str, subject: str, number: int) -> None:
        await self._ask("add", stream, subject, number)

    async def carry_out(self, action: Action) -> Outcome:
        return lent.read_outcome(await self._ask("carry_out", action))

    async def _ask(self, name: str, *arguments: Any) -> Any:
        return await self._calls.ask(self._url, lent.Call(name, arguments))

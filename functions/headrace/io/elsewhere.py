"""The effects of `reconcile` in a NATS that only another `reconcile` is let into, which is asked over HTTP.

Each method is that of `headrace.io.admin.Admin`, and raises what it raises there; Unavailable also when nobody answers.
Who answers is whoever owns a namespace: an answer is bounded in size and time, and held against what its call may say.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import aiohttp

from headrace.core import lent, named
from headrace.core.action import Action, Outcome
from headrace.core.errors import Unavailable
from headrace.core.named import Named
from headrace.core.raw_config import Config
from headrace.io import bounded

# All calls of one channel's reconciling; the other one waits 5 s for its own NATS.
TOGETHER_SECONDS = 20.0
CONNECT_SECONDS = 5.0
# Who has kept us waiting for so long is not asked again for a while: there are others to be served.
SILENT_SECONDS = 30.0
# Thousands of consumers with CA certificates in their metadata.
LONGEST_ANSWER = 16 * 1024 * 1024


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
            headers=bounded.AS_SENT,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        )
        # Until when nobody there is asked.
        self._silent: dict[str, float] = {}

    async def ask(self, url: str, call: lent.Call, until: float) -> Any:
        """One call; its result as JSON has it, and of the shape that the call asks for.

        Args:
            until: by `time.monotonic`.

        Raises:
            Unavailable: nobody answers there, or not as `reconcile` does; or it was that over there.
            Refused: as the other side has met it.
        """
        now = time.monotonic()
        if self._silent.get(url, 0.0) > now:
            raise Unavailable(f"the reconcile at {url} did not answer in time, and is asked again in a while")
        timeout = aiohttp.ClientTimeout(total=max(0.1, until - now), sock_connect=CONNECT_SECONDS)
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._token_at(url)}"}
        where = self._reach(url)
        try:
            async with self._session.post(
                where + lent.PATH, data=call.to_bytes(), headers=headers, timeout=timeout, allow_redirects=False
            ) as answer:
                body = await bounded.body_of(answer, LONGEST_ANSWER)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ConnectionTimeoutError):
                self._silent[url] = time.monotonic() + SILENT_SECONDS
            raise Unavailable(f"the reconcile at {url} can't be reached: {error or type(error).__name__}") from error
        self._silent.pop(url, None)
        if answer.status != 200:
            raise Unavailable(f"the reconcile at {url} answered {answer.status}: {body[:200]!r}")
        return lent.read_answer(body, call.name)

    async def close(self) -> None:
        await self._session.close()


class Elsewhere:
    """The NATS behind one URL, for as long as one channel is reconciled."""

    def __init__(self, calls: Calls, url: str) -> None:
        self._calls = calls
        self._url = url
        self._until = time.monotonic() + TOGETHER_SECONDS

    async def named(self) -> Named:
        """What the ConfigMap over there names."""
        try:
            return named.from_json(await self._ask("named"))
        except (ValueError, KeyError, TypeError) as error:
            words = f"what the reconcile at {self._url} tells of its ConfigMap is of no use ({error})"
            raise Unavailable(f"{words}: mend the names of Secrets in it, or wait for new pods") from None

    async def stream(self, name: str) -> Config | None:
        found: Config | None = await self._ask("stream", name)
        return found

    async def count(self, stream: str, subjects: str) -> int:
        return int(await self._ask("count", stream, subjects))

    async def consumers(self, stream: str) -> list[Config]:
        found: list[Config] = await self._ask("consumers", stream)
        return found

    async def info(self, stream: str, subjects: str = "") -> Mapping[str, Any] | None:
        found: Mapping[str, Any] | None = await self._ask("info", stream, subjects)
        return found

    async def consumer_infos(self, stream: str) -> Sequence[Mapping[str, Any]]:
        found: Sequence[Mapping[str, Any]] = await self._ask("consumer_infos", stream)
        return found

    async def number(self, stream: str, subject: str) -> int:
        return int(await self._ask("number", stream, subject))

    async def add(self, stream: str, subject: str, number: int) -> None:
        await self._ask("add", stream, subject, number)

    async def carry_out(self, action: Action) -> Outcome:
        return lent.read_outcome(await self._ask("carry_out", action))

    async def _ask(self, name: str, *arguments: Any) -> Any:
        return await self._calls.ask(self._url, lent.Call(name, arguments), self._until)

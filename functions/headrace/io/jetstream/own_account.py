"""The effects of `reconcile` in a NATS account that only another `reconcile` may enter, which we ask over HTTP.

Each method does the same as in `headrace.io.jetstream.admin.Admin` and raises the same errors, and Unavailable when
nothing answers. The owner of a namespace decides which program answers there: so we bound the size and time of an
answer, and check its form against the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from headrace.core.errors import Unavailable
from headrace.core.installation import secret_names
from headrace.core.installation.secret_names import SecretNames
from headrace.core.nats import own_account as form
from headrace.core.nats.action import Action, Outcome
from headrace.core.raw_config import Config
from headrace.io.http import bounded_body
from headrace.io.process import clock, tls

# For all calls of one channel's reconciling together; the other `reconcile` waits 5 s for its own NATS.
TOGETHER_SECONDS = 20.0
CONNECT_SECONDS = 5.0
# After a `reconcile` has kept us waiting, we leave it alone for a while, each time twice as long: there are others to
# serve. When we ask it again, it has less time for each answer.
SILENT_SECONDS, LONGEST_SILENCE_SECONDS = 30.0, 300.0
PROBE_SECONDS = 5.0
MOST_SILENT = 10_000
"""The number of silent addresses that we remember."""
# Room for thousands of consumers with CA certificates in their metadata.
LONGEST_ANSWER = 16 * 1024 * 1024


class Calls:
    """Calls to every `reconcile` of another account. It is made inside the loop that uses it."""

    def __init__(
        self,
        token_at: Callable[[str], str],
        reach: Callable[[str], str] = str,
    ) -> None:
        """Args:
        token_at: the token to show at a URL.
        reach: the address behind a URL, if it is another one; for tests.
        """
        self._token_at = token_at
        self._reach = reach
        self._trust = tls.SystemTrust()
        self._session = aiohttp.ClientSession(
            # A kept connection may lead to a pod that is ending.
            connector=aiohttp.TCPConnector(force_close=True),
            headers=bounded_body.AS_SENT,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        )
        self._silent: dict[str, _Silence] = {}

    async def ask(self, url: str, call: form.Call, until: float) -> Any:
        """Make one call, and return its result as JSON, in the form of the call.

        Args:
            until: when to give up, by `clock.monotonic`.

        Raises:
            Unavailable: nothing answers there, or the answer is not that of a `reconcile`, or it says Unavailable.
            Refused: the answer says Refused.
        """
        silence = self._silent.get(url)
        if silence is not None and silence.until > clock.monotonic():
            raise Unavailable(f"the reconcile at {url} did not answer in time, and is asked again in a while")
        patience = max(0.1, until - clock.monotonic())
        if silence is not None:
            patience = min(patience, PROBE_SECONDS)
        timeout = aiohttp.ClientTimeout(total=patience, sock_connect=CONNECT_SECONDS)
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._token_at(url)}"}
        where = self._reach(url)
        try:
            async with self._session.post(
                where + form.PATH,
                data=call.to_bytes(),
                headers=headers,
                ssl=self._trust.at(where),
                timeout=timeout,
                allow_redirects=False,
            ) as answer:
                body = await bounded_body.body_of(answer, LONGEST_ANSWER)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ConnectionTimeoutError):
                self._note_silence(url)
            raise Unavailable(f"the reconcile at {url} can't be reached: {error or type(error).__name__}") from error
        if silence is not None and silence.forgotten_at < clock.monotonic():
            self._silent.pop(url, None)
        if answer.status != 200:
            raise Unavailable(f"the reconcile at {url} answered {answer.status}: {body[:200]!r}")
        return form.read_answer(body, call.name)

    def _note_silence(self, url: str) -> None:
        now, before = clock.monotonic(), self._silent.pop(url, None)
        times = before.times + 1 if before is not None else 1
        self._silent[url] = _Silence(times, now + _pause(times))
        if len(self._silent) > MOST_SILENT:
            # The first address is the one with the oldest silence.
            del self._silent[next(iter(self._silent))]

    async def close(self) -> None:
        await self._session.close()


@dataclass(frozen=True, slots=True)
class _Silence:
    """How many times an address has kept us waiting; we don't ask it before `until`, by `clock.monotonic`."""

    times: int
    until: float

    @property
    def forgotten_at(self) -> float:
        """When the silence is forgotten: one answer proves little, so the address must answer for as long again."""
        return self.until + _pause(self.times)


def _pause(times: int) -> float:
    return min(LONGEST_SILENCE_SECONDS, SILENT_SECONDS * 2.0 ** min(times - 1, 20))


class RemoteAdmin:
    """The NATS account behind one URL, for as long as one channel is being reconciled."""

    def __init__(self, calls: Calls, url: str) -> None:
        self._calls = calls
        self._url = url
        self._until = clock.monotonic() + TOGETHER_SECONDS

    async def named(self) -> SecretNames:
        """The names that the ConfigMap over there holds."""
        try:
            return secret_names.from_json(await self._ask("named"))
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

    async def text(self, stream: str, subject: str) -> str | None:
        found: str | None = await self._ask("text", stream, subject)
        return found

    async def no_room(self, subject: str) -> str:
        return str(await self._ask("no_room", subject))

    async def max_payload(self) -> int:
        return int(await self._ask("max_payload"))

    async def first_since(self, stream: str, time: str) -> int:
        return int(await self._ask("first_since", stream, time))

    async def add(self, stream: str, subject: str, number: int) -> None:
        await self._ask("add", stream, subject, number)

    async def carry_out(self, action: Action) -> Outcome:
        return form.read_outcome(await self._ask("carry_out", action))

    async def _ask(self, name: str, *arguments: Any) -> Any:
        return await self._calls.ask(self._url, form.Call(name, arguments), self._until)

"""The keys by which tokens are verified: fetched from their issuer, again and again, for those who can't fetch them.

The issuer is the API server, which is asked as for everything else, by the kubeconfig or the service account; or
another one by https, without any credentials of ours. A key that the issuer publishes no more counts for another hour:
behind a load balancer API servers disagree in a roll-out, and senders hold tokens that it has signed. What was read
last goes on counting while the issuer can't be reached.

`headrace.core.security.issuer` reads the two documents (ADR 064).
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import aiohttp

from headrace.core.errors import Refused, Unavailable
from headrace.core.quoting import quoted
from headrace.core.security import issuer as form
from headrace.core.security.issuer import Issuer
from headrace.io.process import clock, log, tls
from headrace.io.process.trouble import Trouble
from headrace_operator.kube.api import KubeApi

API_SERVER = "https://kubernetes.default.svc"
"""The base URL that means the API server, in Knative's flag."""
DISCOVERY, KEYS = "/.well-known/openid-configuration", "/openid/v1/jwks"
# An API server that is restarted with a new key signs by it at once: senders are put off until it is read.
REFRESH_SECONDS = 10.0
# As long as a token lasts that Kubernetes gives without being asked for a shorter one.
OVERLAP_SECONDS = 3600.0
CALL_SECONDS = 10.0
LONGEST_DOCUMENT = 1 << 20

_log = log.get("issuer")

Wanted = tuple[str, str]
"""The base URL of the discovery, and PEM of authorities that count beside the system's."""


class IssuerKeys:
    """The issuer that is wanted at this moment.

    Attributes:
        current: None when none is wanted, or it has not been read yet.
        problem: why it can't be read now, in words; empty: it was read.
    """

    def __init__(self, api: KubeApi, changed: Callable[[], None]) -> None:
        """Args:
        changed: called when `current` or `problem` has changed.
        """
        self.current: Issuer | None = None
        self.problem = ""
        self._api = api
        self._changed = changed
        self._asked = asyncio.Event()
        self._base = ""
        self._seen: dict[str, tuple[Mapping[str, str], float]] = {}
        self._trouble = Trouble()

    def ask(self) -> None:
        """Another one may be wanted than a moment ago: look now."""
        self._asked.set()

    async def run(self, wanted: Callable[[], Wanted | None]) -> None:
        """Keep it current until cancelled.

        Args:
            wanted: None: no tokens are asked for, and nothing is fetched.
        """
        while True:
            self._asked.clear()
            await self.look(wanted())
            with suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), REFRESH_SECONDS)

    async def look(self, wanted: Wanted | None) -> None:
        """Read it once."""
        before = self.current, self.problem
        base = wanted[0].rstrip("/") if wanted is not None else ""
        if base != self._base:
            self._base, self.current, self.problem = base, None, ""
            self._seen.clear()
        if wanted is not None:
            try:
                self.current = self._with_overlap(await self._fetched(base, wanted[1]))
                self.problem = ""
                self._trouble.over()
            except (Refused, Unavailable) as error:
                self.problem = f"the keys of the token issuer at {quoted(base)} can't be read: {error}"
                if self._trouble.note(str(error)):
                    _log.warning("the keys of the token issuer can't be read, trying again", error=str(error))
        if (self.current, self.problem) != before:
            self._changed()

    def _with_overlap(self, read: Issuer) -> Issuer:
        """The issuer with the keys that it has published lately."""
        now = clock.monotonic()
        if self.current is not None and self.current.url != read.url:
            self._seen.clear()
        self._seen.update({json.dumps(key, sort_keys=True): (key, now) for key in read.keys})
        self._seen = {name: seen for name, seen in self._seen.items() if now - seen[1] < OVERLAP_SECONDS}
        # In one order, so that the same keys are the same document.
        kept = [key for _, (key, _) in sorted(self._seen.items())]
        return replace(read, keys=tuple(kept[: form.MOST_KEYS]))

    async def _fetched(self, base: str, trust: str) -> Issuer:
        if base == API_SERVER:
            url, algorithms, _ = form.endpoints(await self._of_api_server(DISCOVERY))
            return Issuer(url, algorithms, form.public_keys(await self._of_api_server(KEYS)))
        if not base.startswith("https://"):
            raise Refused("oidc-discovery-base-url has to be an https URL", status=400)
        try:
            context = tls.of_system(trust)
        except (ssl.SSLError, ValueError) as error:
            raise Refused(f"the trust bundles can't be used: {error}", status=400) from error
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=CALL_SECONDS),
        ) as session:
            url, algorithms, keys = form.endpoints(await _got(session, base + DISCOVERY))
            return Issuer(url, algorithms, form.public_keys(await _got(session, keys)))

    async def _of_api_server(self, path: str) -> object:
        found = await self._api.get(path)
        if found is None:
            raise Refused(
                f"the API server does not serve {path}: start it with an https URL as --service-account-issuer",
                status=404,
            )
        return found


async def _got(session: aiohttp.ClientSession, url: str) -> Any:
    try:
        async with session.get(url, allow_redirects=False) as answer:
            text = await answer.content.read(LONGEST_DOCUMENT + 1)
            while len(text) <= LONGEST_DOCUMENT and (more := await answer.content.read(LONGEST_DOCUMENT)):
                text += more
            status = answer.status
    except (aiohttp.ClientError, OSError, ValueError, TimeoutError) as error:
        raise Unavailable(f"GET {quoted(url)}: {error or type(error).__name__}") from error
    if status != 200:
        raise Unavailable(f"GET {quoted(url)}: HTTP {status}")
    if len(text) > LONGEST_DOCUMENT:
        raise Refused(f"GET {quoted(url)}: the answer has more than {LONGEST_DOCUMENT} bytes", status=502)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refused(f"GET {quoted(url)}: the answer is not JSON", status=502) from error

"""The tokens with which events are sent: made by the API server, kept in memory, and handed out with leases.

A token is asked for when a lease needs it and never ahead, so an operator that has just started asks for those of the
consumers with events only. All askers of one identity share one request; requests go out at a bounded rate. A token
that is handed out outlives its lease and every delivery that the lease may begin; it is renewed long before it expires,
while the old one still serves (ADR 065). No token is ever logged, or put into words.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

from headrace.core.channel import rights
from headrace.core.channel.lease_places import SenderIdentity
from headrace.core.delivery import bearer
from headrace.core.delivery.bearer import Bearer, Bearers
from headrace.core.errors import HeadraceError, Refused, Unavailable
from headrace.core.quoting import quoted
from headrace.io.process import clock, log
from headrace_operator.kube.api import NoRight

# As Knative's dispatchers ask for. The API server may give tokens of another lifetime.
LIFETIME_SECONDS = 3600
# A renewal has the last part of a token's life for itself, and consumers that began together renew apart.
RENEW_AT, SPREAD = 0.6, 0.15
REQUESTS_PER_SECOND = 50.0
# A thousand consumers of a missing account must not ask for it a thousand times.
TROUBLE_SECONDS = 5.0
# Two kilobytes each.
MOST_KEPT = 10_000
# Tokens for these are good at the API server itself: no address of an event is to have one.
_API_AUDIENCE = "https://kubernetes.default.svc"
ROLE = "headrace-operator-tokens"
"""The ClusterRole with the right, which is bound in the namespaces of Subscriptions."""

_log = log.get("scaler")


class TokenKey(NamedTuple):
    namespace: str
    account: str
    audience: str


TokenMaker = Callable[[TokenKey], Awaitable[tuple[str, float]]]
"""Makes one token, and says for how many seconds it is good; raises Unavailable or Refused."""


@dataclass(slots=True)
class _Kept:
    """What is kept of one key; times are of the monotonic clock."""

    text: str = field(default="", repr=False)
    made: float = 0.0
    until: float = 0.0
    renew_at: float = 0.0
    trouble: HeadraceError | None = None
    troubled_at: float = 0.0
    asking: asyncio.Task[None] | None = None


class TokenBook:
    """All tokens of one operator; made inside the loop that uses it."""

    def __init__(self, make: TokenMaker, *, most_kept: int = MOST_KEPT, rate: float = REQUESTS_PER_SECOND) -> None:
        self._make = make
        self._most = most_kept
        self._pause = 1.0 / rate
        self._kept: OrderedDict[TokenKey, _Kept] = OrderedDict()
        self._next_at = 0.0

    async def of(self, sender: SenderIdentity, seconds: float) -> Bearers:
        """The tokens of a sender, one for each audience.

        Args:
            seconds: how long they are to be good.

        Raises:
            Unavailable: one can't be had; the words say why.
        """
        keys = [TokenKey(sender.namespace, sender.account, audience) for audience in sender.audiences]
        return {key.audience: await self._one(key, seconds) for key in keys}

    def refused(self, sender: SenderIdentity, audience: str, text: str) -> None:
        """An address has refused a token: the next one is made anew, unless this one is fresh."""
        kept = self._kept.get(TokenKey(sender.namespace, sender.account, audience))
        if kept is not None and kept.text == text and clock.monotonic() >= kept.made + bearer.FRESH_SECONDS:
            kept.text = ""

    async def _one(self, key: TokenKey, seconds: float) -> Bearer:
        kept = self._kept.setdefault(key, _Kept())
        self._kept.move_to_end(key)
        now = clock.monotonic()
        if not kept.text or kept.until < now + seconds:
            await self._asked(key, kept)
        elif now >= kept.renew_at and not self._rests(kept, now):
            self._ask(key, kept)
        self._forget_some()
        return Bearer(kept.text, round(clock.monotonic() - kept.made, 3))

    async def _asked(self, key: TokenKey, kept: _Kept) -> None:
        if not self._rests(kept, clock.monotonic()):
            # Who is cancelled must not take the request of all others along.
            await asyncio.shield(self._ask(key, kept))
        if kept.trouble is not None:
            raise Unavailable(str(kept.trouble)) from kept.trouble

    def _rests(self, kept: _Kept, now: float) -> bool:
        """Has a request failed a moment ago?"""
        return kept.trouble is not None and now < kept.troubled_at + TROUBLE_SECONDS

    def _ask(self, key: TokenKey, kept: _Kept) -> asyncio.Task[None]:
        if kept.asking is None or kept.asking.done():
            kept.asking = asyncio.create_task(self._request(key, kept), name="token")
        return kept.asking

    async def _request(self, key: TokenKey, kept: _Kept) -> None:
        now = clock.monotonic()
        self._next_at = max(now, self._next_at + self._pause)
        await asyncio.sleep(self._next_at - now)
        asked_at = clock.monotonic()
        try:
            if key.audience.startswith(_API_AUDIENCE):
                raise Refused(_good_at_api_server(key), status=422)
            text, seconds = await self._make(key)
            seconds = _checked(key, text, seconds)
        except HeadraceError as error:
            kept.trouble, kept.troubled_at = explained(key, error), clock.monotonic()
            if kept.text:
                words = "a token could not be renewed, and the old one goes on"
                _log.warning(words, account=f"{key.namespace}/{key.account}", error=str(kept.trouble))
            return
        kept.text, kept.made, kept.until, kept.trouble = text, asked_at, asked_at + seconds, None
        kept.renew_at = asked_at + seconds * (RENEW_AT + SPREAD * random.random())

    def _forget_some(self) -> None:
        """Forget those that were not used for the longest time."""
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)


def explained(key: TokenKey, error: HeadraceError) -> HeadraceError:
    """The error, with the account, and with what to do about it."""
    words = f"no token of ServiceAccount {key.namespace}/{key.account} for the audience {quoted(key.audience)}: {error}"
    if isinstance(error, NoRight):
        binding = rights.binding(ROLE, key.namespace, error.user)
        words += f"; whoever has that right in the namespace may give it: {binding}"
    elif isinstance(error, Refused) and error.status == 404:
        words += "; with authentication-oidc: enabled, Knative makes the account of a Subscription, and writes its name"
    return Unavailable(words)


def request_body(audience: str) -> dict[str, Any]:
    """A TokenRequest for one audience."""
    spec = {"audiences": [audience], "expirationSeconds": LIFETIME_SECONDS}
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}


def _checked(key: TokenKey, text: str, seconds: float) -> float:
    """For how many seconds a token is good.

    Raises:
        Unavailable, Refused: it can't be shown, or must not be.
    """
    claims = _claims(text)
    with suppress(KeyError, TypeError, ValueError):
        # Our clock may differ from the API server's.
        seconds = float(claims["exp"]) - float(claims["iat"])
    if not bearer.is_token(text) or not 0 < seconds < inf:
        raise Unavailable(f"the API server gave a token that is good for nothing ({len(text)} characters)")
    if key.audience == claims.get("iss"):
        # An API server takes its own name for an audience of its own.
        raise Refused(_good_at_api_server(key), status=422)
    return seconds


def _claims(text: str) -> Mapping[str, Any]:
    try:
        part = text.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, IndexError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def _good_at_api_server(key: TokenKey) -> str:
    return f"the audience {quoted(key.audience)} is the API server's own, and no address of an event may have that"

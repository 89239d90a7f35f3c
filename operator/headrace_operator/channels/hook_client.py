"""Calls `reconcile`: Metacontroller's CompositeController hooks over HTTP.

Sends what is observed, gives back what is wanted; decides nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import aiohttp

from headrace.core.channel.hook import Installation, installation
from headrace.core.errors import InvalidSpec, Unavailable
from headrace.io.process import tls
from headrace_operator.channels.hook_calls import HookCalls
from headrace_operator.scaling.lease_client import refusal

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
        verify: objects to be looked up at the API server itself: apiVersion, kind, namespace, name and uid of each.
        prune: uids of `spec.subscribers` to take out.
        events: to be told of the channel, once: type, reason and message of each.
        installation: who has answered.
    """

    status: Mapping[str, Any] = field(default_factory=dict)
    children: tuple[Mapping[str, Any], ...] = ()
    resync_after: float | None = None
    finalized: bool = False
    verify: tuple[Mapping[str, str], ...] = ()
    prune: tuple[str, ...] = ()
    events: tuple[Mapping[str, str], ...] = ()
    installation: Installation = Installation()


@dataclass(frozen=True, slots=True)
class Customized:
    """What `reconcile` wants to see, and to be seen.

    Attributes:
        rules: `relatedResources`.
        annotations: that the parent should have, if it has no other value of that name.
    """

    rules: tuple[Mapping[str, Any], ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Observation:
    """What goes to the hook beside the parent; the fields are those of Metacontroller's request and of its extension.

    Attributes:
        children: by `Kind.apiVersion`, then by name, with the namespace before it when it is not the parent's.
        related: the same, written as JSON already: it may hold thousands of objects that are the same for all parents.
        headrace: `complete`, `absent`, `unserved`, `unseen`, `apis`, `shared`, `watched`,
            `ending`; empty where nobody knows.
    """

    children: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    related: bytes = b"{}"
    headrace: Mapping[str, Sequence[str] | Mapping[str, Any] | bool] = field(default_factory=dict)


NOTHING = Observation()


class HookClient:
    """Calls the hooks; made inside the loop that uses it, closed by its owner.

    Attributes:
        calls: how they went.
    """

    def __init__(self, token: str | Callable[[], str]) -> None:
        """Args:
        token: the shared token, or what gives it, where it may change.
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

    async def customize(self, url: str, parent: Mapping[str, Any]) -> Customized:
        """Ask which other objects are to be observed for a parent, and what it is to bear. Raises as `sync`."""
        text = await self._post(f"{url}/customize", json.dumps({"controller": {}, "parent": parent}).encode())
        try:
            body = json.loads(text)
            annotations = (body.get("headrace") or {}).get("annotations") or {}
            told = {str(name): str(value) for name, value in annotations.items()}
            return Customized(tuple(body.get("relatedResources") or ()), told)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise not_ours(url, text) from error

    async def sync(self, url: str, parent: Mapping[str, Any], observed: Observation = NOTHING) -> HookAnswer:
        """Ask for the desired state of a parent.

        Args:
            parent: the whole object, `status` as it was last answered.

        Raises:
            Unavailable: reconcile can't be reached, or has no NATS.
            Refused: it will not answer: 400 malformed parent, 401 token.
            InvalidSpec: the parent can't be written as JSON.
        """
        body = written(parent, observed, finalizing=False)
        with self.calls.timed("sync"):
            return parsed(await self._post(f"{url}/sync", body), url)

    async def finalize(self, url: str, parent: Mapping[str, Any], observed: Observation = NOTHING) -> HookAnswer:
        """Ask for the parent's end; to be repeated until `finalized`. Raises as `sync`."""
        body = written(parent, observed, finalizing=True)
        with self.calls.timed("finalize"):
            return parsed(await self._post(f"{url}/finalize", body), url)

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


def written(parent: Mapping[str, Any], observed: Observation = NOTHING, *, finalizing: bool) -> bytes:
    """The request's JSON.

    Raises:
        InvalidSpec: the parent holds what JSON can't, or itself.
    """
    rest = {"parent": parent, "children": observed.children, "finalizing": finalizing}
    if observed.headrace:
        rest["headrace"] = observed.headrace
    try:
        text = json.dumps({"controller": {}, **rest}, allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidSpec(f"the object can't be written as JSON: {error}", field="parent") from error
    return text[:-1] + b',"related":' + observed.related + b"}"


def not_ours(url: str, text: str) -> Unavailable:
    """Something else than reconcile has answered."""
    return Unavailable(f"{url} answered 200, but not as reconcile does: {text[:100]!r}")


def parsed(text: str, url: str) -> HookAnswer:
    """Read the answer's JSON.

    Raises:
        Unavailable: something else than reconcile has answered.
    """
    try:
        body = json.loads(text)
        seconds = float(body.get("resyncAfterSeconds") or 0.0)
        ours = body.get("headrace") or {}
        return HookAnswer(
            status=dict(body.get("status") or {}),
            children=tuple(body.get("children") or ()),
            resync_after=seconds if seconds > 0 else None,
            finalized=bool(body.get("finalized", False)),
            verify=tuple(dict(each) for each in ours.get("verify") or ()),
            prune=tuple(map(str, ours.get("prune") or ())),
            events=tuple(dict(each) for each in ours.get("events") or ()),
            installation=installation(ours),
        )
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise not_ours(url, text) from error

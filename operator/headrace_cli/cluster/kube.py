"""The port over an API server, by the kubeconfigs that the operator reads, too, and by programs that give credentials.

What the kubeconfig says counts as it is at each call. The module is imported when a verb is told to ask a cluster.
"""

from __future__ import annotations

import asyncio
import json
import os
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import aiohttp

from headrace.core.channel.related import SUBSCRIPTION, SUBSCRIPTION_API
from headrace.core.errors import HeadraceError, Misconfigured, Refused, Unavailable
from headrace.core.installation.operator_settings import KubeSettings
from headrace.core.quoting import cut
from headrace.io.process import environment
from headrace_cli.cluster.credentials import by_program, wants_program
from headrace_operator.kube import access, kubeconfig
from headrace_operator.kube.access import KubeAccess
from headrace_operator.kube.kinds import CHANNEL, Kind

SUBSCRIPTIONS = Kind(SUBSCRIPTION_API, SUBSCRIPTION, "subscriptions")
SECONDS = 30.0
# The longest text of others that is quoted.
LONGEST_WORDS = 1000
# What an answer of another program than an API server makes of our reading.
STRANGE = (ValueError, TypeError, LookupError, AttributeError, RecursionError)
# The product whose documents say how each kind is installed.
BRINGS = {CHANNEL: "Headrace's CRD", SUBSCRIPTIONS: "Knative Eventing"}
BREAKS = {
    aiohttp.ServerDisconnectedError: "Remote end closed connection without response",
    aiohttp.ClientPayloadError: "the connection broke off in the middle",
}

Object: TypeAlias = dict[str, Any]


class NoSuchKind(Refused):
    """The cluster serves no objects of that kind."""


class Kube:
    """One API server, as a kubeconfig names it.

    All methods raise Unavailable when the API server does not answer, and Refused with its words when it says no.

    Attributes:
        namespace: the one that the kubeconfig's context names; `default` without one.
    """

    def __init__(self, file: Path | None, context: str | None) -> None:
        """Args:
        file: None: KUBECONFIG, else the user's own, else the service account of the pod.
        context: None: the current one.

        Raises:
            Misconfigured: there is no such file or context.
        """
        listed = os.environ.get("KUBECONFIG", "")
        self._context = context
        self._files = [file] if file is not None else kubeconfig.paths(listed)
        # What a program gave; it is run with the first call, and once more after a 401.
        self._given: dict[str, str] | None = None
        self._in_pod = file is None and context is None and not any(one.exists() for one in self._files)
        if self._in_pod and not environment.fill(KubeSettings).host:
            problem = f"there is no kubeconfig ({listed or '~/.kube/config'}), and this is no pod"
            raise Misconfigured(f"{problem}: name one with --kubeconfig", field="--kubeconfig")
        self.namespace = "default" if self._in_pod else kubeconfig.chosen(self._files, context).namespace
        self._access: KubeAccess | None = None

    async def channels(self, namespace: str | None) -> list[Object]:
        """All NatsJetStreamChannels of a namespace, or of all."""
        return await self._list(CHANNEL, namespace)

    async def channel(self, namespace: str, name: str) -> Object | None:
        """One channel; None when it does not exist."""
        try:
            return await self._ask("GET", CHANNEL, namespace, name)
        except NoSuchKind:
            raise
        except Refused as error:
            if error.status == 404:
                return None
            raise

    async def create_channel(self, channel: Mapping[str, Any], *, dry_run: bool = False) -> Object:
        """Create a channel; gives the object as it was made. With `dry_run` the server only judges it."""
        return await self._create(CHANNEL, channel, **({"dryRun": "All"} if dry_run else {}))

    async def create_subscription(self, subscription: Mapping[str, Any]) -> Object:
        return await self._create(SUBSCRIPTIONS, subscription)

    async def delete_channel(self, namespace: str, name: str) -> None:
        """Ask for a channel's deletion, which its finalizer may delay."""
        await self._ask("DELETE", CHANNEL, namespace, name)

    async def subscriptions(self, namespace: str | None) -> list[Object]:
        return await self._list(SUBSCRIPTIONS, namespace)

    async def _create(self, kind: Kind, body: Mapping[str, Any], **options: str) -> Object:
        options["fieldValidation"] = "Strict"
        return await self._ask("POST", kind, body["metadata"]["namespace"], body=body, options=options)

    async def _list(self, kind: Kind, namespace: str | None) -> list[Object]:
        found = await self._ask("GET", kind, namespace)
        try:
            return [{**item, "metadata": dict(item["metadata"])} for item in found["items"]]
        except STRANGE as error:
            raise self._strange() from error

    async def _ask(
        self,
        method: str,
        kind: Kind,
        namespace: str | None,
        name: str = "",
        *,
        body: Mapping[str, Any] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Object:
        path = kind.path(namespace or "", name)
        status, reason, text = await self._exchange(method, path, body, options or {})
        if status == 401 and self._given is not None:
            self._given = None
            status, reason, text = await self._exchange(method, path, body, options or {})
        if not 200 <= status < 300:
            raise _refusal(status, reason, text, kind, self._host)
        try:
            found: Object = json.loads(text)
            found.keys()
        except STRANGE as error:
            raise self._strange() from error
        return found

    async def _exchange(
        self, method: str, path: str, body: Mapping[str, Any] | None, options: Mapping[str, str]
    ) -> tuple[int, str, bytes]:
        """The status of an answer, its reason, and its body."""
        way = await asyncio.to_thread(self._way)
        timeout = aiohttp.ClientTimeout(total=SECONDS)
        try:
            async with (
                aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), timeout=timeout) as session,
                session.request(
                    method,
                    way.url + path,
                    json=body,
                    params=options,
                    headers=way.headers,
                    ssl=way.context or True,
                    server_hostname=way.server_name,
                    proxy=way.proxy or _proxy(way.url),
                    allow_redirects=False,
                ) as answer,
            ):
                return answer.status, answer.reason or "", await answer.read()
        except (aiohttp.ClientError, OSError) as error:
            problem = f"the API server at {self._host} does not answer: {_reason(error)}"
            raise Unavailable(f"{problem}; is that the cluster that is meant, and can it be reached?") from error

    def _way(self) -> KubeAccess:
        """The access as the files have it by now; while they can't be used, the last good one stays."""
        with suppress(*(() if self._access is None else (Misconfigured,))):
            self._access = self._find()
        assert self._access is not None, "the first time an error is raised"
        return self._access

    def _find(self) -> KubeAccess:
        if self._in_pod:
            return access.find(environment.fill(KubeSettings))
        chosen = kubeconfig.chosen(self._files, self._context)
        if wants_program(chosen.user):
            self._given = self._given or by_program(chosen.cluster, chosen.user)
            chosen = replace(chosen, user=self._given)
        return access.of_chosen(chosen, self._files)

    @property
    def _host(self) -> str:
        return self._access.url if self._access is not None else ""

    def _strange(self) -> Unavailable:
        return Unavailable(f"{self._host} answers with what no API server says: see to `server` in the kubeconfig")


def _proxy(url: str) -> str | None:
    """The proxy that the environment names, as for any other client."""
    parts = urlsplit(url)
    return None if urllib.request.proxy_bypass(parts.netloc) else urllib.request.getproxies().get(parts.scheme)


def _refusal(status: int, reason: str, text: bytes, kind: Kind, host: str) -> HeadraceError:
    """The error for the API server's answer, with the cure in its message."""
    try:
        words = str(json.loads(text)["message"])
    except STRANGE:
        # The answer is not from the part of the server that serves objects.
        words = ""
    at = f"the API server at {host}"
    said = f"{at}: {cut(words or reason or str(status), LONGEST_WORDS)}"
    match status:
        case 401:
            return Refused(f"{at} does not know you: see to the credentials of the kubeconfig's user", status=401)
        case 403:
            return Refused(f"{said}; ask for these rights (docs/rbac.md), or take another --context", status=403)
        case 404 if not words or words.startswith("the server could not find"):
            group, version = kind.api_version.split("/")
            what = f"{kind.plural}.{group}, version {version}"
            return NoSuchKind(f"{at} serves no {what}: is {BRINGS[kind]} installed in that cluster?", status=404)
        case 429:
            return Unavailable(said)
        case _ if status >= 500 or status < 400:
            return Unavailable(f"{said}, status {status}")
        case _:
            return Refused(said, status=status)


def _reason(error: BaseException) -> str:
    """The first cause, in the system's own words."""
    if type(error) in BREAKS:
        return BREAKS[type(error)]
    cause = getattr(error, "os_error", None) or error
    words = os.strerror(cause.errno) if isinstance(cause, ConnectionError) and cause.errno else str(cause)
    return cut(words or type(error).__name__, LONGEST_WORDS)

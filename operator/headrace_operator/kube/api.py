"""One connection pool to the API server, and the requests that we make: objects are plain JSON.

This module turns the statuses of HTTP into our errors. It retries nothing and keeps nothing: its caller knows what a
failure means.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime
from typing import Any, Self

import aiohttp

from headrace.core.errors import HeadraceError, Refused, Unavailable
from headrace.io.process import clock
from headrace_operator.kube.access import KubeAccess

Body = dict[str, Any]

FIELD_MANAGER = "headrace"
CALL_SECONDS, CONNECT_SECONDS = 30.0, 5.0
# Bookmarks come about once a minute: a connection that is silent for longer is dead.
SILENT_SECONDS = 150.0
LINE_BYTES = 1 << 18
PAGE = 500
MERGE, JSON_PATCH, APPLY = (
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
)


# The API server says no more of a JSON patch that does not apply; of an invalid field it gives the name.
FAILED_TEST = "the server rejected our request due to an error in our request"


# The words of Kubernetes' authorizer; an admission plugin, such as a quota, has others.
_NO_RIGHT = re.compile(r'User "([^"]+)" cannot \w+ resource ')


class Conflict(Refused):
    """The object is not as we believed, so the caller has to read it again."""


class NoRight(Refused):
    """Our account lacks a right.

    Attributes:
        user: the account, in the API server's words.
    """

    def __init__(self, message: str, user: str) -> None:
        super().__init__(message, status=403)
        self.user = user


class NamespaceGoing(Refused):
    """The object's namespace is being deleted, so nothing can be made there any more."""


class Expired(Refused):
    """The API server has forgotten the version that we have, so the caller has to list again."""


class KubeApi:
    """Calls the API server; made inside the loop that uses it, closed by its owner.

    Attributes:
        calls: requests so far, by verb.
    """

    def __init__(self, access: Callable[[], KubeAccess]) -> None:
        """Args:
        access: the way to the API server as it is at this moment.
        """
        self.calls: Counter[str] = Counter()
        self._access = access
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=LINE_BYTES,
            trust_env=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self._session.close()

    async def get(self, path: str) -> Body | None:
        """Read one object from the API server, not from a cache; None when it does not exist.

        Raises, as all methods:
            Unavailable: there is no answer, or one that may be better in a while.
            Refused: the API server refuses; Conflict and Expired say why.
        """
        try:
            return await self._call("get", "GET", path)
        except Refused as error:
            if error.status == 404:
                return None
            raise

    async def list(self, path: str, selection: Mapping[str, str]) -> tuple[list[Body], str]:
        """Read all objects as they are now, in pages; gives them and the version from which to watch on."""
        items: list[Body] = []
        parameters = {**selection, "limit": str(PAGE)}
        while True:
            page = await self._call("list", "GET", path, parameters=parameters)
            items += page.get("items") or ()
            more = page["metadata"].get("continue")
            if not more:
                return items, str(page["metadata"]["resourceVersion"])
            parameters["continue"] = more

    async def watch(self, path: str, parameters: Mapping[str, str]) -> AsyncIterator[Body | None]:
        """Give the changes as they come, until the server ends the watch; None first, once it has begun."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENT_SECONDS)
        query = {**parameters, "watch": "true", "allowWatchBookmarks": "true"}
        self.calls["watch"] += 1
        access = self._access()
        try:
            async with self._session.get(
                access.url + path,
                params=query,
                headers=access.headers,
                ssl=access.context or True,
                server_hostname=access.server_name,
                proxy=access.proxy,
                timeout=timeout,
                allow_redirects=False,
            ) as answer:
                if answer.status != 200:
                    raise refusal("GET", path, answer.status, await answer.text(errors="replace"))
                yield None
                rest = b""
                async for chunk in answer.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        yield _change(line, path)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unavailable(f"watching {path} broke off: {error or type(error).__name__}") from error

    async def create(self, path: str, body: Mapping[str, Any]) -> Body:
        return await self._call("create", "POST", path, body, parameters={"fieldManager": FIELD_MANAGER})

    async def token(self, path: str, body: Mapping[str, Any]) -> tuple[str, float]:
        """Have a token made; gives it, and the seconds for which it is good."""
        text = await self._sent("token", "POST", path, body)
        try:
            status = json.loads(text)["status"]
            until = datetime.fromisoformat(str(status["expirationTimestamp"]))
            return str(status["token"]), (until - clock.now()).total_seconds()
        except (KeyError, TypeError, ValueError) as error:
            # Whatever came, it may hold a token: no words about it, and no error that has it.
            raise Unavailable(f"{path} answered with what is no token ({type(error).__name__})") from None

    async def replace(self, path: str, body: Mapping[str, Any]) -> Body:
        """PUT; the version in the body is the condition."""
        return await self._call("update", "PUT", path, body, parameters={"fieldManager": FIELD_MANAGER})

    async def apply(self, path: str, body: Mapping[str, Any]) -> Body:
        """Server-side apply; our fields are overwritten where others have written them."""
        parameters = {"fieldManager": FIELD_MANAGER, "force": "true"}
        return await self._call("apply", "PATCH", path, body, content=APPLY, parameters=parameters)

    async def merge(self, path: str, body: Mapping[str, Any]) -> Body:
        parameters = {"fieldManager": FIELD_MANAGER}
        return await self._call("patch", "PATCH", path, body, content=MERGE, parameters=parameters)

    async def swap(self, path: str, known: Body, *operations: Mapping[str, Any]) -> Body:
        """JSON patch; Conflict when any part of the object has changed since the state that we know."""
        version = known["metadata"]["resourceVersion"]
        test = {"op": "test", "path": "/metadata/resourceVersion", "value": version}
        parameters = {"fieldManager": FIELD_MANAGER}
        return await self._call("patch", "PATCH", path, [test, *operations], content=JSON_PATCH, parameters=parameters)

    async def delete(self, path: str, uid: str) -> None:
        """Delete the object with this uid, and in the background its dependents; one that is gone is no error."""
        body = {"propagationPolicy": "Background", "preconditions": {"uid": uid}}
        try:
            await self._call("delete", "DELETE", path, body)
        except Refused as error:
            if error.status not in (404, 409):
                raise

    async def _call(
        self,
        verb: str,
        method: str,
        path: str,
        body: object = None,
        *,
        content: str = "application/json",
        parameters: Mapping[str, str] | None = None,
    ) -> Body:
        return _object(await self._sent(verb, method, path, body, content=content, parameters=parameters), path)

    async def _sent(
        self,
        verb: str,
        method: str,
        path: str,
        body: object = None,
        *,
        content: str = "application/json",
        parameters: Mapping[str, str] | None = None,
    ) -> bytes:
        """Make one request; gives the body of the answer to one that has succeeded."""
        self.calls[verb] += 1
        access = self._access()
        try:
            async with self._session.request(
                method,
                access.url + path,
                data=None if body is None else json.dumps(body).encode(),
                params=parameters,
                headers={**access.headers, "Content-Type": content},
                ssl=access.context or True,
                server_hostname=access.server_name,
                proxy=access.proxy,
                timeout=aiohttp.ClientTimeout(total=CALL_SECONDS, sock_connect=CONNECT_SECONDS),
                allow_redirects=False,
            ) as answer:
                status, text = answer.status, await answer.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unavailable(f"{method} {path}: {error or type(error).__name__}") from error
        if status >= 300:
            raise refusal(method, path, status, text.decode(errors="replace"))
        return text


def refusal(method: str, path: str, status: int, text: str) -> HeadraceError:
    """The error for an answer without success: 409 and a failed test of a patch are Conflict, other 4xx Refused."""
    words, causes = _explain(text)
    sentence = f"{method} {path}: {words} (HTTP {status})"
    if status == 410:
        return Expired(sentence, status=status)
    # An object that is being deleted takes no finalizer any more.
    late = status == 422 and ("FieldValueForbidden", "metadata.finalizers") in causes
    if status == 409 or late or (status == 422 and words == FAILED_TEST):
        return Conflict(sentence, status=status)
    if status == 403 and any(reason == "NamespaceTerminating" for reason, _ in causes):
        return NamespaceGoing(sentence, status=status)
    if status == 403 and (lacks := _NO_RIGHT.search(words)):
        return NoRight(sentence, lacks[1])
    if 400 <= status < 500 and status not in (408, 429):
        return Refused(sentence, status=status)
    return Unavailable(sentence)


def passes(error: HeadraceError) -> bool:
    """May another attempt succeed, with nobody's help?"""
    if isinstance(error, Unavailable | Conflict | NamespaceGoing):
        return True
    return isinstance(error, Refused) and error.status == 404


def _explain(text: str) -> tuple[str, set[tuple[str, str]]]:
    """The message of a Status, and the reason and field of each of its causes."""
    try:
        status = json.loads(text)
        words = str(status["message"])
    except (ValueError, KeyError, TypeError):
        return text[:200], set()
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    return words, {(str(one.get("reason")), str(one.get("field"))) for one in causes or () if isinstance(one, dict)}


def _object(text: bytes, path: str) -> Body:
    try:
        body = json.loads(text)
    except ValueError as error:
        raise Unavailable(f"{path} answered with what is not JSON: {text[:100]!r}") from error
    if not isinstance(body, dict):
        raise Unavailable(f"{path} answered with what is no object: {text[:100]!r}")
    return body


def _change(line: bytes, path: str) -> Body:
    change = _object(line, path)
    if change.get("type") == "ERROR":
        told = change.get("object") or {}
        raise refusal("watch", path, int(told.get("code") or 500), json.dumps(told))
    return change

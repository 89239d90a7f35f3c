"""The few calls to a kube-apiserver that tests need, as plain HTTPS: what was sent is what is written here."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.support.kube.control_plane import ControlPlane
from tests.support.waiting import until

CHANNELS = "/apis/messaging.knative.dev/v1alpha1/namespaces/{namespace}/natsjetstreamchannels"
_MERGE, _JSON, _APPLY = "application/merge-patch+json", "application/json-patch+json", "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said; `warnings` are its Warning headers."""

    status: int
    body: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def accepted(self) -> bool:
        return self.status < 300

    @property
    def message(self) -> str:
        """Why not, in the server's words."""
        return str(self.body.get("message", ""))

    def unwrapped(self) -> dict[str, Any]:
        """The object; an assertion error with the server's words when it was refused."""
        assert self.accepted, self.message
        return self.body


class Api:
    """A client that may do everything."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def get(self, path: str, *, accept: str = "application/json") -> Answer:
        return await self._call("GET", path, headers={"Accept": accept})

    async def watch(self, path: str, **selection: str) -> Answer:
        """Whether it may be watched; what comes is not read."""
        parameters = {"watch": "true", "timeoutSeconds": "1", **selection}
        async with self._session.get(self._url + path, params=parameters) as response:
            text = "" if response.status < 300 else await response.text()
            return Answer(response.status, json.loads(text) if text.startswith("{") else {"message": text})

    async def changes(self, path: str, name: str) -> AsyncIterator[dict[str, Any]]:
        """Every version of one object of a collection from now on, for five minutes at most."""
        parameters = {"watch": "true", "timeoutSeconds": "300", "fieldSelector": f"metadata.name={name}"}
        async with self._session.get(self._url + path, params=parameters) as response:
            assert response.status == 200, await response.text()
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    found: dict[str, Any] = json.loads(line)["object"]
                    yield found

    async def create(self, path: str, body: Mapping[str, Any], *, strict: bool = False, dry: bool = False) -> Answer:
        """POST; `strict` refuses unknown fields, as `kubectl apply` does, and `dry` stores nothing."""
        parameters = {"fieldValidation": "Strict"} if strict else {"fieldValidation": "Warn"}
        if dry:
            parameters["dryRun"] = "All"
        return await self._call("POST", path, body, parameters=parameters)

    async def apply(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        manager: str,
        force: bool = False,
        strict: bool = False,
        dry: bool = False,
    ) -> Answer:
        """Server-side apply; `strict` refuses unknown fields, and `dry` stores nothing."""
        parameters = {"fieldManager": manager, "force": str(force).lower()}
        parameters |= {"fieldValidation": "Strict"} if strict else {}
        parameters |= {"dryRun": "All"} if dry else {}
        return await self._call("PATCH", path, body, {"Content-Type": _APPLY}, parameters)

    async def replace(self, path: str, body: Mapping[str, Any]) -> Answer:
        return await self._call("PUT", path, body)

    async def merge(self, path: str, body: Mapping[str, Any]) -> Answer:
        return await self._call("PATCH", path, body, {"Content-Type": _MERGE})

    async def json_patch(self, path: str, operations: list[dict[str, Any]]) -> Answer:
        return await self._call("PATCH", path, operations, {"Content-Type": _JSON})

    async def delete(self, path: str, *, propagation: str = "Background") -> Answer:
        return await self._call("DELETE", path, parameters={"propagationPolicy": propagation})

    async def gone(self, path: str, seconds: float = 120.0) -> None:
        """Wait until an object is not there any more."""

        async def is_gone() -> bool:
            return (await self.get(path)).status == 404

        await until(f"{path} is gone", is_gone, seconds)

    async def _call(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        parameters: Mapping[str, str] | None = None,
    ) -> Answer:
        sent = {"Content-Type": "application/json", **(headers or {})}
        data = None if body is None else json.dumps(body).encode()
        async with self._session.request(
            method, self._url + path, data=data, headers=sent, params=parameters
        ) as response:
            text = await response.text()
            answer = json.loads(text) if text.startswith("{") else {"message": text}
            return Answer(response.status, answer, tuple(response.headers.getall("Warning", ())))


def connect(control_plane: ControlPlane, *, user: str = "") -> tuple[aiohttp.ClientSession, Api]:
    """A session, to be closed by the caller, and the client on it.

    Args:
        user: as whom, in place of the admin; a service account is in its usual groups, too.
    """
    headers = {"Authorization": f"Bearer {control_plane.token}"}
    if user:
        headers["Impersonate-User"] = user
    session = aiohttp.ClientSession(
        headers=headers,
        # Thousands of requests may stand in line for the few connections.
        timeout=aiohttp.ClientTimeout(total=None, sock_read=120),
        connector=aiohttp.TCPConnector(ssl=control_plane.context(), limit=16),
    )
    return session, Api(session, control_plane.url)

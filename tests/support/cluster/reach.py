"""Sending to an address of the cluster from this machine, which has routes to its Services, but not its DNS."""

from __future__ import annotations

import http.client
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from tests.support.cluster.kubectl import Kubectl

EVENT = {"ce-specversion": "1.0", "ce-source": "/cluster", "content-type": "application/json"}
_HOPS = 4
# A sender of Knative's own waits about as long; what comes from zero takes a second or two.
_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Posted:
    """One event that was sent; times are of the monotonic clock.

    Attributes:
        took: seconds until its answer.
    """

    status: int
    at: float
    took: float
    body: bytes


def address(kubectl: Kubectl, url: str) -> tuple[str, int]:
    """IP and port of the Service that a URL leads to, also over the names that stand for others."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 80
    for _ in range(_HOPS):
        name, namespace = host.split(".")[:2]
        spec = kubectl.get("service", name, namespace)["spec"]
        if spec["type"] != "ExternalName":
            return spec["clusterIP"], port
        host = spec["externalName"]
    raise AssertionError(f"{url} leads from one name to another, {_HOPS} times")


def address_of(kubectl: Kubectl, kind: str, name: str, namespace: str) -> str:
    """The URL in the status of something that takes events."""
    return str(kubectl.get(kind, name, namespace)["status"]["address"]["url"])


class Sender:
    """Posts events to one URL, over one connection for each."""

    def __init__(self, kubectl: Kubectl, url: str) -> None:
        self._ip, self._port = address(kubectl, url)
        self._parts = urlsplit(url)

    def __call__(self, id: str, type: str = "t.test", **attributes: str) -> Posted:
        """One event, with more attributes if there are any."""
        headers = {**EVENT, "ce-id": id, "ce-type": type, **{f"ce-{name}": text for name, text in attributes.items()}}
        return self.post(b'{"n": 1}', headers)

    def accepted(self, id: str, type: str = "t.test", **attributes: str) -> Posted:
        """The same, and it was taken."""
        posted = self(id, type, **attributes)
        assert posted.status == 202, f"{posted.status} {posted.body[:500]!r}"
        return posted

    def post(self, body: bytes, headers: Mapping[str, str]) -> Posted:
        began = time.monotonic()
        connection = http.client.HTTPConnection(self._ip, self._port, timeout=_SECONDS)
        try:
            connection.request("POST", self._parts.path or "/", body, {**headers, "Host": self._parts.netloc})
            answer = connection.getresponse()
            return Posted(answer.status, began, time.monotonic() - began, answer.read())
        finally:
            connection.close()

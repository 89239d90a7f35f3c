"""Whether an address of a delivery is that of the channel that delivers: then its events would come again for ever.

A loop over several channels shows in no manifest; it is found by its hops (`headrace.core.event.delivery_claim`). Pure.
Called by the parts that read addresses from manifests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from headrace.core import names
from headrace.core.errors import InvalidSpec
from headrace.core.manifest.delivery_spec import Ref

GROUP, KIND = "messaging.knative.dev", "NatsJetStreamChannel"
API_VERSION = f"{GROUP}/v1alpha1"
_PORTS = {"http": 80, "https": 443}

SUBSCRIBER = "every event would come back to it without end: deliver to a Service or to another channel"
REPLY = "every reply would come back to those who reply: send replies to another channel, or leave the reply out"
DEAD_LETTER = (
    "what a subscriber does not take would come to it again and again: give another channel or a Service, or leave it "
    "out: then such events are parked, to be listed and replayed"
)


@dataclass(frozen=True, slots=True)
class OwnAddress:
    """The addresses where one channel takes its events.

    Attributes:
        domain: the domain of the cluster's Services.
        urls: addresses that the channel has or is to have, beside that of its Service.
    """

    namespace: str
    name: str
    domain: str = "cluster.local"
    urls: tuple[str, ...] = ()

    def is_named(self, ref: Ref) -> bool:
        """Is this object the channel?"""
        group = ref.api_version.partition("/")[0] or ref.group
        named = (ref.kind, ref.namespace or self.namespace, ref.name)
        return group == GROUP and named == (KIND, self.namespace, self.name)

    def is_at(self, uri: str) -> bool:
        """Does this address lead to the channel?"""
        place = _place(uri)
        if place is None:
            return False
        host, _, path = place
        return place in (_place(url) for url in self.urls) or (not path and self._is_host(host))

    def refuse(self, uri: str, why: str, *, field: str) -> None:
        """Raises InvalidSpec, naming the field, where this address leads to the channel."""
        if self.is_at(uri):
            raise InvalidSpec(f"{field} is the channel {self.namespace}/{self.name} itself: {why}", field=field)

    def _is_host(self, host: str) -> bool:
        try:
            own = names.channel(self.namespace, self.name)
        except InvalidSpec:
            return False
        return names.channel_of_host(host, self.domain) == own


def of(parent: Mapping[str, Any], domain: str, base: str | None = None) -> OwnAddress:
    """The address of a channel, by its manifest and its status.

    Args:
        base: URL below which all channels have their path; None for none.
    """
    metadata = parent["metadata"]
    namespace, name = str(metadata.get("namespace", "")), str(metadata.get("name", ""))
    path = f"/{namespace}/{name}"
    # A status may have been damaged: only a possible address of this channel counts.
    urls = [url for url in _urls(parent.get("status")) if url.endswith(path)]
    if base:
        urls.append(base.rstrip("/") + path)
    return OwnAddress(namespace, name, domain, tuple(urls))


def _urls(status: Any) -> Iterable[str]:
    if not isinstance(status, Mapping):
        return
    several = status.get("addresses")
    for one in (status.get("address"), *(several if isinstance(several, list) else ())):
        url = one.get("url") if isinstance(one, Mapping) else None
        if isinstance(url, str):
            yield url


def _place(uri: str) -> tuple[str, int | None, str] | None:
    """Host, port and path, as far as they tell channels apart; None for no address."""
    try:
        parts = urlsplit(uri if "://" in uri else f"http://{uri}")
        port = parts.port
    except ValueError:
        return None
    return (parts.hostname or "").removesuffix("."), port or _PORTS.get(parts.scheme), parts.path.rstrip("/")

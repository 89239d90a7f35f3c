"""The addresses behind a cluster's names, decided from its Services and EndpointSlices. Pure: no clock, no socket."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from infra.cluster.dns.wire import ANY, CNAME, A, Record

DOMAIN = "svc.cluster.local"
# An ExternalName may lead to another one; a ring of them must end.
_MOST_STEPS = 8
Key = tuple[str, str]
Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Zone:
    """Objects by namespace and name, as the API server tells them."""

    services: dict[Key, Object] = field(default_factory=dict)
    slices: dict[Key, Object] = field(default_factory=dict)

    def find(self, name: str, kind: int) -> Sequence[Record] | None:
        """The records of a name, of that kind; None where there is no such name."""
        records: list[Record] = []
        for _ in range(_MOST_STEPS):
            match self._look_up(name):
                case None:
                    # A name of others at the end of a chain is not ours to deny.
                    return records or None
                case str(target):
                    records.append(Record(name, CNAME, target))
                    name = target
                case addresses:
                    return [*records, *(Record(name, A, each) for each in addresses if kind in (A, ANY))]
        return records

    def _look_up(self, name: str) -> str | Sequence[str] | None:
        """Another name, or addresses."""
        if not name.endswith(f".{DOMAIN}"):
            return None
        match name.removesuffix(f".{DOMAIN}").split("."):
            case [service, namespace]:
                return self._service((namespace, service))
            case [host, service, namespace]:
                return self._host(host, (namespace, service))
        return None

    def _service(self, key: Key) -> str | Sequence[str] | None:
        if (service := self.services.get(key)) is None:
            return None
        spec = service["spec"]
        if spec.get("type") == "ExternalName":
            return str(spec["externalName"]).rstrip(".").lower()
        if spec.get("clusterIP") not in (None, "", "None"):
            return [spec["clusterIP"]]
        return [address for endpoint in self._endpoints(key) for address in endpoint["addresses"]]

    def _host(self, host: str, key: Key) -> Sequence[str] | None:
        """A pod of a Service without an address of its own: by its host name, or by its address with dashes."""
        found = [
            address
            for endpoint in self._endpoints(key)
            for address in endpoint["addresses"]
            if host in (endpoint.get("hostname"), address.replace(".", "-"))
        ]
        return found or None

    def _endpoints(self, key: Key) -> Sequence[Object]:
        """That take connections, or all where the Service wants it so."""
        namespace, name = key
        early = self.services.get(key, {}).get("spec", {}).get("publishNotReadyAddresses", False)
        return [
            endpoint
            for (place, _), each in self.slices.items()
            if place == namespace and each["metadata"].get("labels", {}).get("kubernetes.io/service-name") == name
            for endpoint in each.get("endpoints") or ()
            if (early or endpoint.get("conditions", {}).get("ready", True)) and _is_v4(endpoint["addresses"])
        ]


def _is_v4(addresses: Sequence[str]) -> bool:
    return all(ipaddress.ip_address(each).version == 4 for each in addresses)

"""Trust bundles: ConfigMaps with Knative's label, whose authorities every outgoing TLS connection trusts. Pure.

Knative's controllers read those of their own namespace, and copy them to the namespaces of other data planes. Ours need
no copy: what they trust comes with the security document.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

LABEL = "networking.knative.dev/trust-bundle"
SELECTOR = f"{LABEL}=true"

_CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


def authorities(config_maps: Iterable[Mapping[str, Any]]) -> str:
    """All certificates of these ConfigMaps, whatever their keys are called, as PEM; each once, in a fixed order."""
    found = {one.strip() for text in _texts(config_maps) for one in _CERTIFICATE.findall(text)}
    return "\n".join(sorted(found))


def _texts(config_maps: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for one in config_maps:
        for text in _values(one.get("data")):
            yield text
        for text in _values(one.get("binaryData")):
            try:
                yield base64.b64decode(text, validate=True).decode(errors="replace")
            except (binascii.Error, ValueError):
                continue


def _values(data: Any) -> Iterator[str]:
    return (text for text in data.values() if isinstance(text, str)) if isinstance(data, Mapping) else iter(())

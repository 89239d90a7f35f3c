"""The security document: all that the functions of one place must know to be as secure as Knative's flags ask for.

A place is a namespace with functions; each has its own document, with its own channels. The operator writes it into the
ConfigMap `headrace-security` there, which every function mounts, and pushes the same bytes over NATS, since a mount may
be 90 s late. A pushed document has a MAC under the place's key (`headrace.core.caller_token.delivery_key`). Whichever
has the higher revision counts; functions never talk to Kubernetes. Pure.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Self

from headrace.core.security.flags import Flags

CONFIG_MAP, KEY = "headrace-security", "document.json"
"""The ConfigMap's name in each place, and the key with the document."""
SUBJECTS = "headrace.security.*"
LONGEST = 1_000_000
"""Bytes of a document: a ConfigMap has 1 MiB at most, and so has a message of NATS by default."""
HIGHEST_REVISION = 2**53
_MAC_LENGTH = 64


@dataclass(frozen=True, slots=True)
class SecurityDocument:
    """The document of one place; an empty one is that of a cluster without flags, policies and trust bundles.

    Attributes:
        revision: it rises with each change, also over a document that was removed meanwhile; zero: there is none.
        issuer, keys, algorithms: the issuer of tokens, its public keys (a JWKS) and the algorithms that it signs with.
        channels: by `NAMESPACE/NAME`, only those that policies apply to; the values are
            `headrace.core.security.policy`'s.
        trust: certificates of authorities that every outgoing TLS connection trusts beside the system's, PEM.
    """

    revision: int = 0
    flags: Flags = field(default_factory=Flags)
    issuer: str = ""
    keys: tuple[Mapping[str, Any], ...] = ()
    algorithms: tuple[str, ...] = ()
    channels: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    trust: str = ""

    @property
    def asks_for_nothing(self) -> bool:
        return replace(self, revision=0) == SecurityDocument()

    def to_json(self) -> bytes:
        """The bytes of it: the same for equal documents."""
        body = {
            "revision": self.revision,
            "flags": self.flags.to_json(),
            "issuer": self.issuer,
            "keys": list(self.keys),
            "algorithms": list(self.algorithms),
            "channels": self.channels,
            "trust": self.trust,
        }
        return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, text: bytes | str) -> Self:
        """Read it; members that a later version has added are passed over.

        Raises:
            ValueError, TypeError, KeyError, RecursionError: it is no such document.
        """
        body = json.loads(text)
        revision, keys, channels = body["revision"], body["keys"], body["channels"]
        if type(revision) is not int or not 0 < revision <= HIGHEST_REVISION:
            raise ValueError("revision is no number that could be one")
        if not all(isinstance(one, dict) for one in (*keys, *channels.values())):
            raise TypeError("keys and channels have objects")
        issuer, trust, algorithms = body["issuer"], body["trust"], body["algorithms"]
        if not all(isinstance(one, str) for one in (issuer, trust, *algorithms)) or isinstance(algorithms, str):
            raise TypeError("issuer, trust and algorithms are texts")
        return cls(revision, Flags.from_json(body["flags"]), issuer, tuple(keys), tuple(algorithms), channels, trust)


def subject(place: str) -> str:
    """Where a place's document is pushed, in core NATS."""
    return f"headrace.security.{place}"


def sealed(document: bytes, place: str, key: bytes) -> bytes:
    """A document as it is pushed.

    Args:
        key: the place's.
    """
    return _mac(document, place, key) + document


def opened(message: bytes, place: str, key: bytes) -> bytes | None:
    """The document of a push; None: whoever sent it does not have the place's key."""
    mac, document = message[:_MAC_LENGTH], message[_MAC_LENGTH:]
    return document if key and hmac.compare_digest(mac, _mac(document, place, key)) else None


def _mac(document: bytes, place: str, key: bytes) -> bytes:
    # The same key proves claims on deliveries, by another function and with another beginning.
    return hmac.new(key, b"security document of %b\n%b" % (place.encode(), document), sha256).hexdigest().encode()

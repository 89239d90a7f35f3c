"""The addresses in a channel's status, as Knative's flag `transport-encryption` has them.

Knative's resolver takes the first of `addresses` where there are any. So there are none while nothing is encrypted, and
the https one comes first otherwise. Pure; called by `headrace.core.channel.status`.
"""

from __future__ import annotations

from typing import Any

from headrace.core import names
from headrace.core.channel.children.decision import Functions
from headrace.core.channel.children.encryption import SecureAddress
from headrace.core.conditions import Condition
from headrace.core.security.flags import TransportEncryption

STRICT = TransportEncryption.STRICT
_OUTSIDE = (
    "NoHttpsAddress",
    "transport-encryption asks for an https address, and the functions are not ours to make: give HEADRACE_ADDRESS an "
    "https URL",
)


def to_status(url: str, functions: Functions, *, read_only: bool) -> dict[str, Any]:
    """`address` and `addresses`.

    Args:
        url: of a channel whose functions are not ours to make.
        read_only: the channel mirrors another stream, and takes no events.
    """
    ending = names.READ_ONLY if read_only else ""
    plain = (functions.urls or (url,))[0].rstrip("/") + ending
    if not functions.encryption.asked_for:
        return {"address": {"url": plain}}
    http, encrypted = {"name": "http", "url": plain}, _https(url, functions)
    if encrypted is None:
        return {"address": http}
    https = {"name": "https", "url": encrypted.url.rstrip("/") + ending}
    if encrypted.ca_certs:
        https["CACerts"] = encrypted.ca_certs
    if functions.encryption.mode is STRICT or plain.startswith("https://"):
        return {"address": https, "addresses": [https]}
    return {"address": http, "addresses": [https, http]}


def lacking(url: str, functions: Functions) -> Condition | None:
    """The condition that there is no https address where one is asked for; without one a strict channel has none."""
    if not functions.encryption.asked_for or _https(url, functions) is not None:
        return None
    reason, message = functions.encryption.problem if functions.urls and functions.encryption.problem else _OUTSIDE
    if functions.encryption.mode is STRICT:
        return Condition("Addressable", False, reason, message)
    return Condition("EncryptionReady", False, reason, message, informative=True)


def _https(url: str, functions: Functions) -> SecureAddress | None:
    if functions.urls or functions.https is not None:
        return functions.https
    return SecureAddress(url) if url.startswith("https://") else None

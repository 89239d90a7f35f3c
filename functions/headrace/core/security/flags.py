"""Knative Eventing's flags, as far as a channel obeys them, from the ConfigMap `config-features`.

A value is read as Knative reads it: in upper or lower case, white space around a name passed over, around a value not.
Knative takes any other value in silence, and each of its parts then sees in it what it likes. Here such a value is told
and means Knative's default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any, Self

from headrace.core.quoting import quoted

TRANSPORT_ENCRYPTION = "transport-encryption"
OIDC = "authentication-oidc"
OIDC_DISCOVERY = "oidc-discovery-base-url"
DEFAULT_MODE = "default-authorization-mode"
AUTO_CREATE = "eventtype-auto-create"
RETRY_AFTER = "delivery-retryafter"
TIMEOUT = "delivery-timeout"

# What Knative's own switches know. `allowed` is a third word, for a feature that each object may ask for; a channel has
# no such feature, so it is not `enabled`.
_SWITCH = {"enabled": True, "disabled": False, "allowed": False}


class TransportEncryption(StrEnum):
    """Which addresses a channel has, and takes events at: http; https and http; https alone."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    STRICT = "strict"


class DefaultMode(StrEnum):
    """Who may send to a channel that no EventPolicy is for."""

    ALLOW_ALL = "allow-all"
    DENY_ALL = "deny-all"
    ALLOW_SAME_NAMESPACE = "allow-same-namespace"


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags; the defaults are Knative's.

    Attributes:
        oidc_discovery_url: the base of the token issuer's discovery document.
        auto_create_types: an EventType for each kind of event.
        retry_after, delivery_timeout: whether Knative's webhook lets a Subscription have `retryAfterMax` and `timeout`;
            what it has is obeyed.
    """

    transport_encryption: TransportEncryption = TransportEncryption.DISABLED
    oidc: bool = False
    oidc_discovery_url: str = "https://kubernetes.default.svc"
    default_mode: DefaultMode = DefaultMode.ALLOW_SAME_NAMESPACE
    auto_create_types: bool = False
    retry_after: bool = False
    delivery_timeout: bool = True

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> tuple[Self, tuple[str, ...]]:
        """The flags of the ConfigMap's data, and in words what of it makes no sense."""
        given = {str(name).strip(): value for name, value in data.items() if not str(name).startswith("_")}
        found: dict[str, Any] = {}
        problems: list[str] = []
        for name, member, known in _KNOWN:
            if (value := given.get(name)) is None:
                continue
            word = value.lower() if isinstance(value, str) else ""
            if word in known:
                found[member] = known[word]
            else:
                problems.append(
                    f"{name} is {quoted(value)}: give {_listed(known)}; until then it is {_default(member)}"
                )
        if isinstance(url := given.get(OIDC_DISCOVERY), str):
            found["oidc_discovery_url"] = url
        return cls(**found), tuple(problems)

    def to_json(self) -> dict[str, Any]:
        return {name: str(value) if name in _TEXTS else value for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        """Raises:
        ValueError, TypeError, KeyError: it is not of this form.
        """
        plain = {each.name: body[each.name] for each in fields(cls)}
        for name, value in plain.items():
            if type(value) is not (str if name in _TEXTS else bool):
                raise TypeError(f"flags.{name} is {quoted(value)}")
        modes = {name: mode(plain[name]) for name, mode in _MODES.items()}
        return cls(**{**plain, **modes})


_MODES = {"transport_encryption": TransportEncryption, "default_mode": DefaultMode}
_TEXTS = (*_MODES, "oidc_discovery_url")
_KNOWN: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    (TRANSPORT_ENCRYPTION, "transport_encryption", {str(one): one for one in TransportEncryption}),
    (OIDC, "oidc", _SWITCH),
    (DEFAULT_MODE, "default_mode", {str(one): one for one in DefaultMode}),
    (AUTO_CREATE, "auto_create_types", _SWITCH),
    (RETRY_AFTER, "retry_after", _SWITCH),
    (TIMEOUT, "delivery_timeout", _SWITCH),
)


def _listed(known: Mapping[str, Any]) -> str:
    return " or ".join(_offered(known))


def _offered(known: Mapping[str, Any]) -> Iterator[str]:
    # `allowed` is taken, and no use to anybody.
    return (word for word in known if word != "allowed")


def _default(member: str) -> str:
    value = getattr(Flags(), member)
    return str(value) if isinstance(value, StrEnum) else "enabled" if value else "disabled"

"""The issuer of tokens: its URL, its algorithms and its keys, as its discovery tells them.

Only public keys, and only algorithms with a public and a private key, are taken: with any other, whoever can verify can
sign. Pure; the operator fetches the two documents (`headrace_operator.kube.discovery`), and the security document
carries what is made of them to the functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.core.errors import Refused
from headrace.core.quoting import quoted

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "EdDSA")
# Where discovery names none, as OpenID Connect has it.
_USUAL: Final = ("RS256",)
# Of each kind of key, in JWK's words: everything that a verifier needs. The private members have other names.
_MEMBERS: Final = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x")}
_COMMON: Final = ("kty", "kid", "alg", "use")
MOST_KEYS: Final = 64
_LONGEST_MEMBER: Final = 4096


@dataclass(frozen=True, slots=True)
class Issuer:
    """An issuer.

    Attributes:
        url: as its tokens name it.
        algorithms: by which it may sign.
        keys: JWKs, public members only.
    """

    url: str
    algorithms: tuple[str, ...]
    keys: tuple[Mapping[str, str], ...]


def endpoints(discovery: object) -> tuple[str, tuple[str, ...], str]:
    """The issuer's URL, its algorithms, and the URL of its keys, by its discovery document.

    Raises:
        Refused: it is no such document.
    """
    if not isinstance(discovery, Mapping):
        raise Refused("the issuer's discovery document is no JSON object", status=502)
    url, keys = discovery.get("issuer"), discovery.get("jwks_uri")
    for name, value in (("issuer", url), ("jwks_uri", keys)):
        if not isinstance(value, str) or not value.startswith("https://"):
            said = "nothing" if value is None else quoted(str(value))
            raise Refused(f"{name} in the issuer's discovery document is {said}: it has to be an https URL", status=502)
    named = discovery.get("id_token_signing_alg_values_supported")
    listed = named if isinstance(named, list) and named else _USUAL
    return str(url), tuple(one for one in ALGORITHMS if one in listed), str(keys)


def public_keys(jwks: object) -> tuple[Mapping[str, str], ...]:
    """The keys in a JSON Web Key Set that tokens can be verified by, without anything else of it.

    Raises:
        Refused: it is no key set, or has no such key.
    """
    listed = jwks.get("keys") if isinstance(jwks, Mapping) else None
    found = [key for key in map(_public, listed if isinstance(listed, list) else ()) if key is not None]
    if not found:
        raise Refused("the issuer's key set has no public key for signatures", status=502)
    return tuple(found[:MOST_KEYS])


def _public(key: Any) -> Mapping[str, str] | None:
    if not isinstance(key, Mapping) or key.get("use", "sig") != "sig":
        return None
    needed = _MEMBERS.get(str(key.get("kty")))
    if needed is None or not set(needed).issubset(key):
        return None
    taken = {name: key[name] for name in _chosen(needed) if name in key}
    good = all(isinstance(value, str) and len(value) <= _LONGEST_MEMBER for value in taken.values())
    return taken if good else None


def _chosen(needed: Iterable[str]) -> tuple[str, ...]:
    return (*_COMMON, *needed)

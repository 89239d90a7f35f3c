"""Whose token came with an event: JSON Web Tokens of one issuer, verified by its keys, and remembered.

A token is good for the channels that its audiences name, as Knative writes an audience. Times are judged as Knative
judges them: a token ends at its very second, and may begin up to five minutes from now, for clocks that differ.

No word of a token stands in an error: errors are answered and logged. Imports PyJWT, so it is itself imported only
where OIDC is on. Pure, and knows no network: the issuer's keys are given (ADR 064). Called by `headrace.receive`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, TypeGuard

from jwt import PyJWK, PyJWS, PyJWTError

from headrace.core import names
from headrace.core.errors import Refused, Unavailable
from headrace.core.security.issuer import ALGORITHMS, Issuer

LONGEST: Final = 16 * 1024
"""Bytes of a token: one of Kubernetes takes 1 KiB, and issuers that list groups fill several."""
# A few hundred bytes each, so a megabyte or two. A sender has one token for an hour, or a few.
REMEMBERED: Final = 4096
# What go-oidc, Knative's verifier, allows.
EARLY_SECONDS: Final = 300
# An issuer may sign with a new key before its keys have reached us: the operator asks for them every 10 s, and a mount
# may be a minute late where the push is lost. Until then the sender is told to come again, not that it is a stranger.
NEWS_SECONDS: Final = 60
_MOST_UNKNOWN: Final = 64
_MOST_AUDIENCES: Final = 64
_LONGEST_SUBJECT: Final = 1024

_BEARER = b"bearer "


@dataclass(frozen=True, slots=True)
class _Verified:
    """What a token says.

    Attributes:
        subject: whose it is.
        channels: subjects of the channels that it is good for.
        ends: in seconds since the epoch.
    """

    subject: str
    channels: frozenset[str]
    ends: float


class Tokens:
    """The tokens of one issuer. Another issuer, or a key less, is another object: nothing outlives its key."""

    def __init__(self, issuer: Issuer, now: Callable[[], float]) -> None:
        """Args:
        now: seconds since the epoch.
        """
        self._issuer = issuer
        self._now = now
        self._algorithms = [one for one in ALGORITHMS if one in issuer.algorithms]
        self._signatures = PyJWS(self._algorithms)
        self._keys = [(str(key.get("kid") or ""), key) for key in issuer.keys]
        self._verified: dict[bytes, _Verified] = {}
        self._unknown: dict[str, float] = {}

    def known(self, channel: str, authorization: bytes) -> str | None:
        """`subject`, if the token has been verified before; None: ask `subject`."""
        found = self._verified.get(sha256(authorization).digest())
        return found.subject if found is not None and self._now() < found.ends and channel in found.channels else None

    def subject(self, channel: str, authorization: Sequence[bytes]) -> str:
        """Whose token an event for a channel came with.

        Args:
            channel: the subject of its events in NATS.
            authorization: the values of that header.

        Raises:
            Refused: 401, the token is not good.
            Unavailable: the key that signed it may be one that has not reached us yet.
        """
        token = _bearer(authorization)
        digest = sha256(authorization[0]).digest()
        found = self._verified.get(digest)
        if found is None:
            found = self._said(self._claims(token))
            if len(self._verified) >= REMEMBERED:
                del self._verified[next(iter(self._verified))]
            self._verified[digest] = found
        if self._now() >= found.ends:
            raise _bad("the token has expired: get a new one")
        if channel not in found.channels:
            raise _bad("the token is for another audience: ask for one for the channel's status.address.audience")
        return found.subject

    def _claims(self, token: bytes) -> Mapping[str, Any]:
        """What a token says, once its signature is verified."""
        if not self._keys:
            raise Unavailable("the keys that tokens are verified by are not known yet: try again later", retry_after=2)
        if len(token) > LONGEST:
            raise _bad(f"the token is longer than {LONGEST} bytes")
        try:
            header = self._signatures.get_unverified_header(token)
        except PyJWTError:
            raise _bad("what follows on Bearer is no JSON Web Token") from None
        algorithm, kid = header.get("alg"), header.get("kid", "")
        if not isinstance(algorithm, str) or algorithm not in self._algorithms:
            raise _bad("the token is signed by an algorithm that its issuer does not have")
        keys = [key for name, key in self._keys if not kid or name == kid]
        if not keys:
            raise self._unknown_key(kid)
        for key in _usable(keys, algorithm):
            try:
                payload = self._signatures.decode(token, key, [algorithm])
            except (PyJWTError, ValueError, TypeError):
                continue
            try:
                claims = json.loads(payload)
            except (ValueError, RecursionError):
                raise _bad("the token's claims can't be read") from None
            return claims if isinstance(claims, dict) else {}
        raise _bad("the token's signature is not its issuer's")

    def _said(self, claims: Mapping[str, Any]) -> _Verified:
        if claims.get("iss") != self._issuer.url:
            raise _bad("the token is from another issuer than the one that this installation trusts")
        subject, begins, ends, audience = (claims.get(name) for name in ("sub", "nbf", "exp", "aud"))
        if not isinstance(subject, str) or not 0 < len(subject) <= _LONGEST_SUBJECT:
            raise _bad("the token doesn't say whose it is")
        if not _is_time(ends):
            raise _bad("the token doesn't say when it ends")
        if begins is not None and not (_is_time(begins) and begins <= self._now() + EARLY_SECONDS):
            raise _bad("the token is not valid yet")
        audiences = audience if isinstance(audience, list) else [audience]
        channels = (names.channel_of_audience(one) for one in audiences[:_MOST_AUDIENCES] if isinstance(one, str))
        return _Verified(subject, frozenset(one.subject for one in channels if one is not None), float(ends))

    def _unknown_key(self, kid: str) -> Refused | Unavailable:
        now = self._now()
        if kid not in self._unknown and len(self._unknown) < _MOST_UNKNOWN:
            self._unknown[kid] = now
        if now - self._unknown.get(kid, -NEWS_SECONDS) < NEWS_SECONDS:
            return Unavailable("the token names a key that is not known yet: try again later", retry_after=2)
        return _bad("the token names a key that is none of its issuer's")


def _bearer(authorization: Sequence[bytes]) -> bytes:
    match authorization:
        case [value] if value[: len(_BEARER)].lower() == _BEARER:
            return value[len(_BEARER) :]
        case []:
            raise _bad(
                "events need a token here: send Authorization: Bearer …, for the channel's status.address.audience"
            )
        case _:
            raise _bad("send one Authorization header, with Bearer and the token")


def _usable(keys: Sequence[Mapping[str, Any]], algorithm: str) -> Iterator[PyJWK]:
    """Those keys that are for that algorithm; of others the issuer may have any."""
    for key in keys:
        if key.get("alg", algorithm) == algorithm:
            try:
                yield PyJWK(dict(key), algorithm)
            except (PyJWTError, ValueError, TypeError):
                continue


def _is_time(value: object) -> TypeGuard[float]:
    """A number of seconds, and a finite one: infinity minus itself is no number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15


def _bad(why: str) -> Refused:
    return Refused(why, status=401)

"""Keys, JWTs and credentials files of NATS, made by hand: what `nsc` would make."""

from __future__ import annotations

import base64
import json
import secrets
import time
from typing import Any

import nkeys  # type: ignore[import-untyped]  # it ships no types

_FREE = {"subs": -1, "data": -1, "payload": -1}
_ACCOUNT = {**_FREE, "imports": -1, "exports": -1, "wildcards": True, "conn": -1, "leaf": -1}


class Key:
    """An nkey of one kind: operator, account or user."""

    def __init__(self, prefix: int) -> None:
        self.seed: str = nkeys.encode_seed(secrets.token_bytes(32), prefix).decode()
        self._pair = nkeys.from_seed(bytearray(self.seed.encode()))
        self.public: str = self._pair.public_key.decode()

    def sign(self, data: bytes) -> bytes:
        signature: bytes = self._pair.sign(data)
        return signature


class Operator:
    """An operator with one account, that lets its users in as long as their JWT says."""

    def __init__(self) -> None:
        self._operator = Key(nkeys.PREFIX_BYTE_OPERATOR)
        self._account = Key(nkeys.PREFIX_BYTE_ACCOUNT)
        # JetStream does not start without one.
        self._system = Key(nkeys.PREFIX_BYTE_ACCOUNT)

    @property
    def config(self) -> str:
        """The lines of nats-server's configuration."""
        operator = _jwt(self._operator, self._operator.public, {"type": "operator"})
        accounts = "\n".join(
            f"{account.public}: {_jwt(self._operator, account.public, {'type': 'account', 'limits': _ACCOUNT})}"
            for account in (self._account, self._system)
        )
        return (
            f"operator: {operator}\nsystem_account: {self._system.public}\n"
            f"resolver: MEMORY\nresolver_preload: {{\n{accounts}\n}}"
        )

    def credentials(self, *, seconds: float | None = None) -> str:
        """The text of a credentials file of a new user, valid for ever or for some seconds."""
        user = Key(nkeys.PREFIX_BYTE_USER)
        jwt = _jwt(self._account, user.public, {"type": "user", **_FREE}, seconds)
        return (
            f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n"
        )


def user_key() -> Key:
    return Key(nkeys.PREFIX_BYTE_USER)


def _jwt(issuer: Key, subject: str, nats: dict[str, Any], seconds: float | None = None) -> str:
    now = int(time.time())
    claims: dict[str, Any] = {
        "jti": secrets.token_hex(16),
        "iat": now,
        "iss": issuer.public,
        "sub": subject,
        "name": nats["type"],
        "nats": {**nats, "version": 2},
    }
    if seconds is not None:
        # Whole seconds only: round up, so that it is valid for that long at least.
        claims["exp"] = int(time.time() + seconds) + 1
    signed = f"{_encoded({'typ': 'JWT', 'alg': 'ed25519-nkey'})}.{_encoded(claims)}"
    return f"{signed}.{_base64(issuer.sign(signed.encode()))}"


def _encoded(value: dict[str, Any]) -> str:
    return _base64(json.dumps(value).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

"""An issuer of tokens for tests: keys made here, and tokens as Kubernetes' TokenRequest gives them."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from headrace.core import names
from headrace.core.security.issuer import Issuer

URL = "https://kubernetes.default.svc.cluster.local"
SENDER = "system:serviceaccount:shop:till"
NOW = 1_800_000_000.0
ORDERS = names.audience("shop", "orders")


@cache
def rsa_key(kid: str) -> rsa.RSAPrivateKey:
    """The key of that name: making one takes a tenth of a second."""
    return rsa.generate_private_key(65537, 2048)


@cache
def ec_key(kid: str) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@dataclass
class TokenIssuer:
    """An issuer.

    Attributes:
        kids: names of the RSA keys that it publishes; it signs by the last one.
        ec_kids: names of elliptic ones.
    """

    url: str = URL
    kids: list[str] = field(default_factory=lambda: ["one"])
    ec_kids: list[str] = field(default_factory=list)

    def jwks(self) -> dict[str, Any]:
        elliptic = [_jwk(ECAlgorithm.to_jwk(ec_key(kid).public_key()), kid, "ES256") for kid in self.ec_kids]
        return {
            "keys": [_jwk(RSAAlgorithm.to_jwk(rsa_key(kid).public_key()), kid, "RS256") for kid in self.kids] + elliptic
        }

    def known(self) -> Issuer:
        return Issuer(self.url, ("RS256", "ES256"), tuple(self.jwks()["keys"]))

    def token(self, *, now: float = NOW, headers: Mapping[str, Any] | None = None, **claims: Any) -> str:
        """A good token for the channel shop/orders, but for what is given; a claim that is None is left out."""
        header = {"kid": self.kids[-1], **(headers or {})}
        return jwt.encode(self.claims(now, **claims), rsa_key(header["kid"]), "RS256", header)

    def claims(self, now: float = NOW, **claims: Any) -> dict[str, Any]:
        usual = {"iss": self.url, "sub": SENDER, "aud": [ORDERS], "iat": now - 10, "nbf": now - 10, "exp": now + 600}
        return {name: value for name, value in {**usual, **claims}.items() if value is not None}


def raw(header: object, payload: bytes, signature: bytes = b"signature") -> str:
    """A token whose parts are as given."""
    parts = (header if isinstance(header, bytes) else json.dumps(header).encode(), payload, signature)
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def _jwk(text: Any, kid: str, algorithm: str) -> dict[str, Any]:
    return {**json.loads(text), "kid": kid, "alg": algorithm, "use": "sig"}

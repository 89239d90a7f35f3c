"""What of an issuer's two documents counts: https, public keys for signatures, and no shared secret."""

from __future__ import annotations

import pytest

from headrace.core.errors import Refused
from headrace.core.security.issuer import endpoints, public_keys

DISCOVERY = {
    "issuer": "https://kubernetes.default.svc",
    "jwks_uri": "https://10.0.0.1:6443/openid/v1/jwks",
    "response_types_supported": ["id_token"],
    "subject_types_supported": ["public"],
    "id_token_signing_alg_values_supported": ["RS256"],
}
RSA = {"use": "sig", "kty": "RSA", "kid": "a", "alg": "RS256", "n": "AAAA", "e": "AQAB"}
EC = {"kty": "EC", "kid": "b", "crv": "P-256", "x": "AA", "y": "BB"}


def test_discovery_tells_issuer_algorithms_and_where_the_keys_are() -> None:
    assert endpoints(DISCOVERY) == (
        "https://kubernetes.default.svc",
        ("RS256",),
        "https://10.0.0.1:6443/openid/v1/jwks",
    )


def test_of_the_algorithms_those_count_that_need_a_private_key() -> None:
    named = ["HS256", "none", "ES256", "RS256", 7]
    assert endpoints({**DISCOVERY, "id_token_signing_alg_values_supported": named})[1] == ("RS256", "ES256")


@pytest.mark.parametrize("named", [None, [], "HS256"])
def test_where_discovery_names_no_algorithms_it_is_the_usual_one(named) -> None:
    assert endpoints({**DISCOVERY, "id_token_signing_alg_values_supported": named})[1] == ("RS256",)


@pytest.mark.parametrize(
    ("discovery", "field"),
    [
        ([], "JSON object"),
        ({}, "issuer"),
        ({**DISCOVERY, "issuer": ["x"]}, "issuer"),
        ({**DISCOVERY, "jwks_uri": None}, "jwks_uri"),
        ({**DISCOVERY, "jwks_uri": "http://plain.example/keys"}, "jwks_uri"),
    ],
)
def test_a_document_that_is_no_discovery_is_refused(discovery, field) -> None:
    with pytest.raises(Refused, match=field):
        endpoints(discovery)


def test_keys_are_taken_with_their_public_members_only() -> None:
    private = {**RSA, "d": "SECRET", "p": "SECRET", "x5c": ["CERT"], "more": {"a": 1}}
    assert public_keys({"keys": [private, EC]}) == (RSA, EC)


@pytest.mark.parametrize(
    "key",
    [
        pytest.param({"kty": "oct", "kid": "c", "k": "SECRET"}, id="a shared secret"),
        pytest.param({**RSA, "use": "enc"}, id="for encryption"),
        pytest.param({"kty": "RSA", "kid": "a"}, id="without a modulus"),
        pytest.param({**RSA, "n": 7}, id="modulus is a number"),
        pytest.param({**RSA, "n": "A" * 5000}, id="endless modulus"),
        pytest.param("key", id="text"),
        pytest.param(None, id="null"),
    ],
)
def test_a_key_that_verifies_no_signature_is_passed_over(key) -> None:
    assert public_keys({"keys": [key, EC]}) == (EC,)
    with pytest.raises(Refused, match="no public key"):
        public_keys({"keys": [key]})


@pytest.mark.parametrize("jwks", [None, [], {}, {"keys": None}, {"keys": {}}, "x"])
def test_what_is_no_key_set_is_refused(jwks) -> None:
    with pytest.raises(Refused, match="no public key"):
        public_keys(jwks)

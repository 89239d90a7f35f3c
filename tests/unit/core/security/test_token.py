"""Which tokens are good, for which channel, and until when; and that no word of one gets out."""

from __future__ import annotations

import base64
import json
import math

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core import names
from headrace.core.errors import HeadraceError, Refused, Unavailable
from headrace.core.security import token
from headrace.core.security.issuer import Issuer
from headrace.core.security.token import Tokens
from tests.support.security.issuing import NOW, ORDERS, SENDER, TokenIssuer, ec_key, raw, rsa_key

CHANNEL = names.channel("shop", "orders").subject


class Judge:
    """The tokens of one issuer, at a time that the test sets."""

    def __init__(self, issuer: Issuer | None = None) -> None:
        self.now = NOW
        self.tokens = Tokens(issuer or TokenIssuer().known(), lambda: self.now)

    def subject(self, text: str, channel: str = CHANNEL) -> str:
        return self.tokens.subject(channel, [f"Bearer {text}".encode()])

    def refuses(self, text: str, why: str, channel: str = CHANNEL) -> None:
        with pytest.raises(Refused, match=why) as refused:
            self.subject(text, channel)
        assert refused.value.status == 401
        assert self.tokens.known(channel, f"Bearer {text}".encode()) is None


def test_a_good_token_tells_its_subject_and_is_known_from_then_on() -> None:
    judge, text = Judge(), TokenIssuer().token()
    assert judge.tokens.known(CHANNEL, f"Bearer {text}".encode()) is None
    assert judge.subject(text) == SENDER
    assert judge.tokens.known(CHANNEL, f"Bearer {text}".encode()) == SENDER


@pytest.mark.parametrize(
    "authorization", [[], [b""], [b"Basic dTpw"], [b"Bearer"], [b"Bearer a", b"Bearer b"], [b"Token x"]]
)
def test_an_event_without_one_bearer_token_is_refused(authorization: list[bytes]) -> None:
    with pytest.raises(Refused, match=r"Authorization|Bearer") as refused:
        Judge().tokens.subject(CHANNEL, authorization)
    assert refused.value.status == 401


def test_the_scheme_is_read_in_any_case_as_in_http() -> None:
    assert Judge().tokens.subject(CHANNEL, [f"bearer {TokenIssuer().token()}".encode()]) == SENDER


def test_a_known_token_is_no_other_schemes() -> None:
    judge, text = Judge(), TokenIssuer().token()
    judge.subject(text)
    assert judge.tokens.known(CHANNEL, f"Basic  {text}".encode()) is None


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        pytest.param({"iss": "https://elsewhere.example"}, "another issuer", id="wrong issuer"),
        pytest.param({"iss": None}, "another issuer", id="no issuer"),
        pytest.param({"aud": "https://kubernetes.default.svc"}, "another audience", id="audience is the API server"),
        pytest.param(
            {"aud": [names.audience("shop", "returns")]}, "another audience", id="audience is another channel"
        ),
        pytest.param({"aud": [ORDERS.upper()]}, "another audience", id="audience in capitals"),
        pytest.param({"aud": [f"{ORDERS}/more"]}, "another audience", id="audience with more behind it"),
        pytest.param({"aud": {"a": ORDERS}}, "another audience", id="audience is an object"),
        pytest.param({"aud": []}, "another audience", id="audience is empty"),
        pytest.param({"aud": None}, "another audience", id="no audience"),
        pytest.param({"exp": NOW}, "has expired", id="ends at this second"),
        pytest.param({"exp": NOW - 60}, "has expired", id="ended 60 s ago"),
        pytest.param({"exp": None}, "when it ends", id="no end"),
        pytest.param({"exp": "1900000000"}, "when it ends", id="end is text"),
        pytest.param({"exp": True}, "when it ends", id="end is true"),
        pytest.param({"exp": math.inf}, "when it ends", id="end is infinite"),
        pytest.param({"exp": math.nan}, "when it ends", id="end is no number"),
        pytest.param({"exp": 10**400}, "when it ends", id="end is huge"),
        pytest.param({"nbf": NOW + 301}, "not valid yet", id="begins in more than five minutes"),
        pytest.param({"nbf": "now"}, "not valid yet", id="begin is text"),
        pytest.param({"sub": None}, "whose it is", id="no subject"),
        pytest.param({"sub": ""}, "whose it is", id="empty subject"),
        pytest.param({"sub": ["a"]}, "whose it is", id="subject is a list"),
        pytest.param({"sub": "x" * 1025}, "whose it is", id="endless subject"),
        pytest.param({"groups": ["g" * 100] * 200}, "longer than", id="huge claims"),
    ],
)
def test_a_token_with_such_claims_is_refused(claims, why) -> None:
    Judge().refuses(TokenIssuer().token(**claims), why)


@pytest.mark.parametrize(
    "claims",
    [
        pytest.param({"aud": ORDERS}, id="audience is text"),
        pytest.param({"aud": ["a", ORDERS, 7, None]}, id="audience is one of several"),
        pytest.param({"nbf": NOW + 60}, id="our clock is 60 s late"),
        pytest.param({"nbf": NOW + 300}, id="our clock is five minutes late"),
        pytest.param({"nbf": None, "iat": None}, id="no begin"),
        pytest.param({"exp": NOW + 0.5}, id="half a second is left"),
        pytest.param({"iat": NOW + 60}, id="issued in the future"),
        pytest.param({"nested": [[[[{"a": [[]]}]]]] * 20, "more": "x" * 5000}, id="claims that nobody asks for"),
    ],
)
def test_a_token_with_such_claims_is_good(claims) -> None:
    assert Judge().subject(TokenIssuer().token(**claims)) == SENDER


def test_a_known_token_ends_when_it_says() -> None:
    judge, text = Judge(), TokenIssuer().token(exp=NOW + 60)
    judge.subject(text)
    judge.now = NOW + 60
    judge.refuses(text, "has expired")


def test_a_known_token_of_one_channel_is_none_of_another() -> None:
    judge, text = Judge(), TokenIssuer().token()
    judge.subject(text)
    judge.refuses(text, "another audience", names.channel("shop", "returns").subject)


@pytest.mark.parametrize("name", ["a.dotted.name", "n" * 63, "two--dashes"])
def test_an_audience_names_the_channel_also_where_its_subject_has_a_shortened_name(name) -> None:
    text = TokenIssuer().token(aud=[names.audience("shop", name)])
    assert Judge().subject(text, names.channel("shop", name).subject) == SENDER


def test_tokens_signed_by_elliptic_keys_are_good() -> None:
    issuer = TokenIssuer(ec_kids=["curve"])
    text = jwt.encode(issuer.claims(), ec_key("curve"), "ES256", {"kid": "curve"})
    assert Judge(issuer.known()).subject(text) == SENDER


def test_a_token_without_kid_is_good_by_any_key_of_its_issuer() -> None:
    issuer = TokenIssuer(kids=["one", "two"])
    text = jwt.encode(issuer.claims(), rsa_key("two"), "RS256")
    assert Judge(issuer.known()).subject(text) == SENDER


def test_the_signature_counts() -> None:
    head, claims, signature = TokenIssuer().token().split(".")
    _, other, _ = TokenIssuer().token(sub="system:serviceaccount:shop:boss").split(".")
    flipped = ("A" if signature[0] != "A" else "B") + signature[1:]
    for text in (f"{head}.{claims}.{flipped}", f"{head}.{other}.{signature}", f"{head}.{claims}."):
        Judge().refuses(text, "signature is not its issuer's")
    stolen = jwt.encode(TokenIssuer().claims(), rsa_key("thief's"), "RS256", {"kid": "one"})
    Judge().refuses(stolen, "signature is not its issuer's")


def test_no_other_algorithm_than_the_issuers_counts() -> None:
    claims = json.dumps(TokenIssuer().claims()).encode()
    public = (
        rsa_key("one")
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    for algorithm in ("none", "None", "", None, "HS256", "RS999", ["RS256"], {"a": 1}):
        Judge().refuses(raw({"alg": algorithm, "kid": "one"}, claims, b""), "algorithm that its issuer")
    # Key confusion: the public key, which everybody has, as the secret of an HMAC.
    signed = base64.urlsafe_b64encode(claims).rstrip(b"=").decode()
    head = raw({"alg": "HS256", "kid": "one"}, b"").split(".")[0]
    mac = jwt.get_algorithm_by_name("HS256").sign(f"{head}.{signed}".encode(), public)
    confused = f"{head}.{signed}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"
    Judge().refuses(confused, "algorithm that its issuer")
    # Also where discovery should list one.
    lax = Issuer(TokenIssuer().url, ("HS256", "none", "RS256"), TokenIssuer().known().keys)
    Judge(lax).refuses(confused, "algorithm that its issuer")


def test_a_key_is_for_its_own_algorithm() -> None:
    claims = TokenIssuer().claims()
    other = jwt.encode(claims, rsa_key("one"), "RS512", {"kid": "one"})
    issuer = TokenIssuer().known()
    Judge(Issuer(issuer.url, ("RS256", "RS512", "ES256"), issuer.keys)).refuses(other, "signature is not its issuer's")
    Judge(Issuer(issuer.url, ("RS256", "ES256"), issuer.keys)).refuses(
        raw({"alg": "ES256", "kid": "one"}, json.dumps(claims).encode(), b"x" * 64), "signature is not its issuer's"
    )


@pytest.mark.parametrize(
    "header",
    [
        {"jwk": {"kty": "oct", "k": "AAAA"}},
        {"jku": "https://thief.example/keys"},
        {"x5u": "https://thief.example/keys"},
        {"x5c": ["AAAA"]},
    ],
)
def test_a_key_that_the_token_brings_along_counts_for_nothing(header) -> None:
    stolen = jwt.encode(TokenIssuer().claims(), rsa_key("thief's"), "RS256", {"kid": "one", **header})
    Judge().refuses(stolen, "signature is not its issuer's")


def test_of_claims_given_twice_those_count_that_the_issuer_has_signed() -> None:
    # Nobody but the issuer can write one; all parts of ours read the same one, since claims are read once.
    claims = json.dumps(TokenIssuer().claims())[:-1] + f', "aud": ["{names.audience("shop", "returns")}"]}}'
    signed = jwt.api_jws.encode(claims.encode(), rsa_key("one"), "RS256", {"kid": "one"})
    judge = Judge()
    judge.refuses(signed, "another audience")
    assert judge.subject(signed, names.channel("shop", "returns").subject) == SENDER


@pytest.mark.parametrize(
    "claims",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b"7", id="a number"),
        pytest.param(b"\xff\xfe", id="no text"),
        pytest.param(b"[" * 5000, id="nested without end"),
        pytest.param(b'{"exp": ' + b"9" * 5000 + b"}", id="a number without end"),
    ],
)
def test_signed_garbage_is_refused(claims: bytes) -> None:
    Judge().refuses(jwt.api_jws.encode(claims, rsa_key("one"), "RS256", {"kid": "one"}), "claims|issuer")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("a.b", id="two parts"),
        pytest.param("....", id="dots"),
        pytest.param("%%%.%%%.%%%", id="no base64"),
        pytest.param(raw(b"[" * 5000, b"{}"), id="nested head"),
        pytest.param(raw({"alg": "RS256", "kid": 7}, b"{}"), id="kid is a number"),
        pytest.param(raw({"alg": "RS256", "kid": "one", "crit": ["exp"]}, b"{}"), id="something critical"),
        pytest.param(raw({"alg": "RS256", "kid": "one", "b64": False}, b"{}"), id="payload apart"),
    ],
)
def test_what_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(Refused) as refused:
        Judge().subject(text)
    assert refused.value.status == 401


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300) | st.from_regex(rb"[A-Za-z0-9_-]{0,60}\.[A-Za-z0-9_-]{0,60}\.[A-Za-z0-9_-]{0,60}"))
def test_no_bytes_whatever_pass_or_break_anything(noise: bytes) -> None:
    with pytest.raises(Refused):
        Judge().tokens.subject(CHANNEL, [b"Bearer " + noise])


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_changed_token_passes(data) -> None:
    text = TokenIssuer().token()
    at = data.draw(st.integers(0, len(text) - 1))
    changed = text[:at] + data.draw(st.characters(codec="ascii")) + text[at + 1 :]
    if changed != text:
        with pytest.raises((Refused, Unavailable)):
            Judge().subject(changed)


def test_a_key_that_may_be_new_is_waited_for_and_one_that_does_not_come_is_a_strangers() -> None:
    judge = Judge()
    text = TokenIssuer(kids=["one", "two"]).token()
    for later in (0, 30, 59):
        judge.now = NOW + later
        with pytest.raises(Unavailable, match="not known yet"):
            judge.subject(text)
    judge.now = NOW + 60
    judge.refuses(text, "none of its issuer's")


def test_unknown_keys_take_no_memory_without_end() -> None:
    judge = Judge()
    for number in range(token._MOST_UNKNOWN):
        with pytest.raises(Unavailable):
            judge.subject(raw({"alg": "RS256", "kid": f"k{number}"}, b"{}"))
    judge.refuses(raw({"alg": "RS256", "kid": "one too many"}, b"{}"), "none of its issuer's")


def test_before_any_key_is_known_senders_are_told_to_come_again() -> None:
    judge = Judge(Issuer("", (), ()))
    with pytest.raises(Unavailable, match="not known yet"):
        judge.subject(TokenIssuer().token())
    with pytest.raises(Refused):
        judge.tokens.subject(CHANNEL, [])


def test_so_many_tokens_are_remembered_and_the_oldest_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token, "REMEMBERED", 3)
    judge = Judge()
    texts = [TokenIssuer().token(jti=str(number)) for number in range(4)]
    for text in texts:
        judge.subject(text)
    known = [judge.tokens.known(CHANNEL, f"Bearer {text}".encode()) is not None for text in texts]
    assert known == [False, True, True, True]
    assert judge.subject(texts[0]) == SENDER


def test_no_word_of_a_token_stands_in_an_error() -> None:
    secret = "hush-hush"
    judge = Judge()
    issuer = TokenIssuer()
    good = issuer.token()
    texts = [
        issuer.token(sub=[secret]),
        issuer.token(iss=secret),
        issuer.token(aud=[secret]),
        issuer.token(exp=secret),
        issuer.token(nbf=secret),
        raw({"alg": secret}, b"{}"),
        raw({"alg": "RS256", "kid": secret}, b"{}"),
        raw(secret.encode(), b"{}"),
        secret,
        good[:-3] + ("AAA" if good[-3:] != "AAA" else "BBB"),
    ]
    for text in texts:
        with pytest.raises(HeadraceError) as refused:
            judge.subject(text)
        assert secret not in str(refused.value)
        assert not any(part and part in str(refused.value) for part in text.split("."))

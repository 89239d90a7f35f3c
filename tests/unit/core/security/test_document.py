"""The document has one form, and only the holder of a place's key can push it there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.core.security import document
from headrace.core.security.document import SecurityDocument
from headrace.core.security.flags import Flags

WHOLE = SecurityDocument(
    7,
    Flags(oidc=True),
    "https://kubernetes.default.svc",
    ({"kty": "RSA", "kid": "one"},),
    ("RS256",),
    {"shop/orders": {"policies": []}},
    "-----BEGIN CERTIFICATE-----",
)


def test_a_document_comes_back_from_json() -> None:
    assert SecurityDocument.from_json(WHOLE.to_json()) == WHOLE


def test_a_member_of_a_later_version_is_passed_over() -> None:
    body = {**json.loads(WHOLE.to_json()), "later": 1}

    assert SecurityDocument.from_json(json.dumps(body)) == WHOLE


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"revision": 0}, id="a revision that none has"),
        pytest.param({"revision": True}, id="no number"),
        pytest.param({"revision": 2**53 + 1}, id="a revision after which none could come"),
        pytest.param({"keys": ["one"]}, id="no key"),
        pytest.param({"channels": {"shop/orders": 1}}, id="no policies"),
        pytest.param({"algorithms": "RS256"}, id="no list"),
        pytest.param({"trust": None}, id="no text"),
        pytest.param({"flags": {}}, id="flags are missing"),
    ],
)
def test_a_broken_document_is_none(change: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        SecurityDocument.from_json(json.dumps({**json.loads(WHOLE.to_json()), **change}))


@pytest.mark.parametrize(
    ("opener", "opened"),
    [
        pytest.param(("shop", b"k" * 32), True, id="who has the key"),
        pytest.param(("shop", b"x" * 32), False, id="another key"),
        pytest.param(("bank", b"k" * 32), False, id="another place"),
        pytest.param(("shop", b""), False, id="no key at all"),
    ],
)
def test_a_pushed_document_is_proved(opener: tuple[str, bytes], opened: bool) -> None:
    pushed = document.sealed(WHOLE.to_json(), "shop", b"k" * 32)

    assert document.opened(pushed, *opener) == (WHOLE.to_json() if opened else None)


@pytest.mark.parametrize(
    ("one", "empty"), [(SecurityDocument(9), True), (SecurityDocument(9, Flags(oidc=True)), False)]
)
def test_a_document_that_asks_for_nothing(one: SecurityDocument, empty: bool) -> None:
    assert one.asks_for_nothing is empty

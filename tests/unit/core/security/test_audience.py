"""The audience in a channel's addresses, while tokens are asked for."""

from __future__ import annotations

import pytest

from headrace.core.security.audience import addressed

ORDERS = "messaging.knative.dev/natsjetstreamchannel/shop/orders"
METADATA = {"namespace": "shop", "name": "orders"}
PLAIN = {
    "address": {"name": "http", "url": "http://orders"},
    "addresses": [
        {"name": "https", "url": "https://orders", "CACerts": "PEM"},
        {"name": "http", "url": "http://orders"},
    ],
    "stream": "KN_SHOP__ORDERS",
}
TOLD = {
    "address": {**PLAIN["address"], "audience": ORDERS},
    "addresses": [{**one, "audience": ORDERS} for one in PLAIN["addresses"]],
    "stream": "KN_SHOP__ORDERS",
}


def test_it_is_in_every_address_while_tokens_are_asked_for() -> None:
    assert addressed(PLAIN, {"metadata": METADATA}, True) == TOLD


def test_it_is_in_none_while_they_are_not() -> None:
    # Also in a status that was kept from before.
    assert addressed(TOLD, {"metadata": METADATA, "status": TOLD}, False) == PLAIN


@pytest.mark.parametrize(("before", "then"), [(TOLD, TOLD), (PLAIN, PLAIN), ({}, PLAIN), (None, PLAIN)])
def test_while_nobody_knows_what_was_last_told_holds(before, then) -> None:
    assert addressed(PLAIN, {"metadata": METADATA, "status": before}, None) == then


def test_a_channel_without_an_address_gets_none() -> None:
    assert addressed({"stream": "X"}, {"metadata": METADATA}, True) == {"stream": "X"}


def test_the_name_is_the_objects_own_however_long_or_dotted() -> None:
    metadata = {"namespace": "shop", "name": "a.dotted.name"}
    found = addressed({"address": {"url": "http://x"}}, {"metadata": metadata}, True)
    assert found["address"]["audience"] == "messaging.knative.dev/natsjetstreamchannel/shop/a.dotted.name"

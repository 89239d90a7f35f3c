"""Which whole requests `receive` takes at once, and which it has to look at."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from headrace.core.event.delivery_claim import Claims
from headrace.receive.story import message_at_once

CLAIMS = Claims()
Header = tuple[bytes, bytes]

HOST = (b"host", b"orders-kn-jsm-channel.shop.svc.cluster.local")
ELSEWHERE = (b"host", b"receive.example.org")
EVENT: tuple[Header, ...] = (
    (b"ce-specversion", b"1.0"),
    (b"ce-id", b"1"),
    (b"ce-source", b"/me"),
    (b"ce-type", b"shop.order"),
)


@pytest.mark.parametrize(
    ("url", "headers"),
    [
        pytest.param(b"/", (HOST, *EVENT), id="by host"),
        pytest.param(b"/shop/orders", (ELSEWHERE, *EVENT), id="by path"),
        pytest.param(
            b"/", ((b"k-original-host", HOST[1]), ELSEWHERE, *EVENT), id="by the host before a gateway has changed it"
        ),
    ],
)
def test_a_plain_event_is_taken_at_once(url: bytes, headers: Sequence[Header]) -> None:
    found = message_at_once(url, headers, b"data", CLAIMS)

    assert found is not None
    message, claim = found
    assert claim == b""
    assert (message.subject, message.data) == ("shop.orders._knative", b"data")


@pytest.mark.parametrize(
    ("url", "headers"),
    [
        pytest.param(b"/", (HOST, *EVENT, (b"ce-id", b"2")), id="an attribute that comes twice"),
        pytest.param(b"/", (HOST, HOST, *EVENT), id="two hosts"),
        pytest.param(b"/", EVENT, id="no host"),
        pytest.param(b"/", (HOST, *EVENT, (b"content-encoding", b"gzip")), id="data that are coded"),
        pytest.param(b"/", (HOST, *EVENT, (b"upgrade", b"h2c")), id="an offer of another protocol"),
        pytest.param(b"/shop/orders?a=1", (ELSEWHERE, *EVENT), id="a query"),
        pytest.param(b"/shop%2Forders", (ELSEWHERE, *EVENT), id="an escaped path"),
        pytest.param(b"/", (ELSEWHERE, *EVENT), id="no channel"),
        pytest.param(b"/", (HOST, *EVENT[1:]), id="an attribute that is missing"),
    ],
)
def test_whatever_needs_a_closer_look_is_not_taken_at_once(url: bytes, headers: Sequence[Header]) -> None:
    assert message_at_once(url, headers, b"data", CLAIMS) is None


def test_a_channel_may_have_the_name_that_addresses_of_mirrors_end_in() -> None:
    found = message_at_once(b"/shop/read-only", (ELSEWHERE, *EVENT), b"data", CLAIMS)

    assert found is not None
    assert found[0].subject == "shop.read-only._knative"
    assert message_at_once(b"/shop/read-only/read-only", (ELSEWHERE, *EVENT), b"data", CLAIMS) is None

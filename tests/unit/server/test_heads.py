"""Requests that other readers read otherwise are refused, in whatever pieces they come."""

from __future__ import annotations

import pytest

from headrace.server import heads
from tests.support.http.in_memory_http import exchange
from tests.support.http.malformed import requests


@pytest.mark.parametrize(("sent", "status"), [pytest.param(*one, id=name) for name, one in requests().items()])
@pytest.mark.parametrize("pieces", ["at once", "byte by byte", "behind another"])
async def test_what_can_be_read_in_two_ways_is_refused(sent: bytes, status: int, pieces: str) -> None:
    before = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n" if pieces == "behind another" else b""
    whole = before + sent
    done = await exchange(
        tuple(whole[at : at + 1] for at in range(len(whole))) if pieces == "byte by byte" else (whole,)
    )
    assert len(done.requests) == bool(before)
    assert done.written.split(b"\r\n\r\n")[-2].startswith(b"HTTP/1.1 %d " % status)


@pytest.mark.parametrize(
    "line",
    [
        b"POST /shop/orders HTTP/1.1",
        b"\r\nPOST /shop/orders HTTP/1.1",
        b"GET /a/b?q=%20&r={x}|^`[1]' HTTP/1.0",
        b"M-SEARCH / HTTP/1.1",
        b"OPTIONS * HTTP/1.1",
        b"POST http://h/shop/orders HTTP/1.1",
        b"POST HTTPS://[::1]:80 HTTP/1.1",
        b"CONNECT h:80 HTTP/1.1",
    ],
)
def test_a_request_line_to_the_letter_is_good_as_soon_as_its_end_has_come(line: bytes) -> None:
    assert heads.good_line(line + b"\r\n") is True
    assert [heads.good_line((line + b"\r\n")[:end]) for end in range(len(line) + 2)] == [None] * (len(line) + 2)


@pytest.mark.parametrize(
    "host",
    [
        b"",
        b"h",
        b"orders-kn-jsm-channel.shop.svc:80",
        b"[::1]:8080",
        b"10.0.0.1",
        b"xn--bcher-kva.example",
        b"a_b",
        b"%41",
    ],
)
def test_a_host_of_any_legal_form_is_good(host: bytes) -> None:
    assert heads.fault("1.1", [(b"host", host)], b"/") is None

"""Our HTTP server's protocol, where it matters in which pieces the bytes come."""

from __future__ import annotations

import re

import pytest

from tests.support.http.in_memory_http import exchange

EVENT = b"POST /shop/orders HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\nhi"
UPGRADE = b"POST /a HTTP/1.1\r\nhost: h\r\nconnection: upgrade\r\nupgrade: h2c\r\ncontent-length: 0\r\n\r\n"


def statuses(written: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", written)]


async def test_any_number_of_offered_upgrades_may_come_at_once():
    done = await exchange((UPGRADE * 1500,))
    assert len(done.requests) == 1500
    assert statuses(done.written) == [202] * 1500


@pytest.mark.parametrize("pieces", [(EVENT, b"garbage\r\n"), (EVENT + b"garbage\r\n",)], ids=["later", "at once"])
async def test_garbage_behind_an_event_does_not_take_its_answer(pieces):
    done = await exchange(pieces)
    assert [request.body for request in done.requests] == [b"hi"]
    assert statuses(done.written)[0] == 202


async def test_nothing_is_read_behind_garbage():
    done = await exchange((EVENT + b"garbage\r\n" + EVENT, EVENT))
    assert len(done.requests) == 1
    assert b"connection: close" in done.written


async def test_what_is_behind_a_last_request_is_not_read_whether_it_offers_an_upgrade_or_not():
    for closing in (b"close", b"close, upgrade\r\nupgrade: h2c"):
        last = b"POST /a HTTP/1.1\r\nhost: h\r\nconnection: %b\r\ncontent-length: 0\r\n\r\n" % closing
        done = await exchange((last + EVENT,))
        assert statuses(done.written) == [202]


@pytest.mark.parametrize(
    ("head", "status"),
    [
        pytest.param(b"HTTP/1.1\r\n", 400, id="without a host"),
        pytest.param(b"HTTP/1.1\r\nhost: h\r\nHost: h\r\n", 400, id="with two, though they are the same"),
        pytest.param(b"HTTP/1.0\r\nhost: a\r\nhost: b\r\n", 400, id="with two, of an old client"),
        pytest.param(b"HTTP/1.1\r\nconnection: upgrade\r\nupgrade: h2c\r\n", 400, id="without, with an upgrade"),
        pytest.param(b"HTTP/2.0\r\nhost: h\r\n", 505, id="of a version with other bytes"),
        pytest.param(b"HTTP/0.9\r\nhost: h\r\n", 505, id="of a version without headers"),
        pytest.param(b"HTTP/1.1\r\nhost: h\r\n", 202, id="with one"),
        pytest.param(b"HTTP/1.1\r\nhost:\r\n", 202, id="with one that is empty, as of a client that has none"),
        pytest.param(b"HTTP/1.0\r\n", 202, id="without, of an old client"),
    ],
)
@pytest.mark.parametrize("body", [b"content-length: 2\r\n\r\nhi", b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n"])
async def test_a_request_says_once_for_which_host_it_is(head, status, body):
    if head.startswith(b"HTTP/1.0") and b"chunked" in body:
        status = 400  # that version has no chunks
    done = await exchange((b"POST /shop/orders " + head + body,))
    assert statuses(done.written) == [status]
    assert len(done.requests) == (status == 202)


async def test_a_request_for_no_host_behind_an_event_does_not_take_its_answer():
    done = await exchange((EVENT + b"POST /shop/orders HTTP/1.1\r\ncontent-length: 0\r\n\r\n",))
    assert statuses(done.written) == [202, 400]
    assert b"connection: close" in done.written


@pytest.mark.parametrize(
    ("url", "host", "path"),
    [
        pytest.param(b"http://b.demo.svc/", b"b.demo.svc", "/", id="plain"),
        pytest.param(b"http://b.demo.svc:80/x%20y?q=1", b"b.demo.svc:80", "/x y", id="port, path and query"),
        pytest.param(b"HTTPS://B.demo.svc", b"b.demo.svc", "/", id="https, no path, another case"),
        pytest.param(b"http://b?q=1", b"b", "/", id="a query without a path"),
        pytest.param(b"http://[::1]:80//x", b"[::1]:80", "//x", id="IPv6 and an empty part"),
        pytest.param(b"http://b/", b"a", None, id="another host"),
        pytest.param(b"http://b:80/", b"b", None, id="a port more"),
        pytest.param(b"http://user@b/", b"b", None, id="userinfo"),
        pytest.param(b"gopher://b/", b"b", None, id="another scheme"),
        pytest.param(b"b/x", b"b", None, id="no scheme"),
    ],
)
async def test_an_absolute_url_is_of_the_same_host(url, host, path):
    done = await exchange((b"POST " + url + b" HTTP/1.1\r\nhost: " + host + b"\r\ncontent-length: 0\r\n\r\n",))
    assert [seen.path for seen in done.requests] == ([] if path is None else [path])
    assert statuses(done.written) == [400 if path is None else 202]


async def test_a_head_that_is_cut_behind_many_events_in_one_read_is_not_too_large():
    done = await exchange((EVENT * 1500 + EVENT[:30], EVENT[30:]))
    assert statuses(done.written) == [202] * 1501


async def test_nor_is_one_behind_the_rest_of_a_large_event():
    large = EVENT.replace(b"length: 2\r\n\r\nhi", b"length: 100000\r\n\r\n") + bytes(100_000)
    done = await exchange((large[:10_000], large[10_000:] + EVENT[:30], EVENT[30:]))
    assert statuses(done.written) == [202, 202]


@pytest.mark.parametrize(("count", "requests"), [(256, 1), (257, 0)])
async def test_there_may_be_as_many_trailers_as_headers(count, requests):
    body = b"POST /a HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n"
    done = await exchange((body + b"a: b\r\n" * count + b"\r\n", body + b"\r\n"))
    assert [request.body for request in done.requests] == [b"hi"] * 2 * requests
    assert statuses(done.written) == ([202, 202] if requests else [431])

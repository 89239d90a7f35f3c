"""Our HTTP server's protocol, where it matters in which pieces the bytes come."""

from __future__ import annotations

import re

import pytest

from tests.support.in_memory_http import exchange

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

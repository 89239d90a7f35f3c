"""The head of a request: its content, and that nothing can be smuggled into it."""

from __future__ import annotations

import httptools
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.core.errors import InvalidEvent
from headrace.io.http.address import parse
from headrace.io.http.request import HeaderNames, RequestHead

# How long an example takes on a busy machine is not what is tested.
unhurried = settings(deadline=None)


OURS = {b"host", b"content-length", b"transfer-encoding", b"connection"}


def head(uri: str = "http://shop.example/orders?a=1") -> RequestHead:
    return RequestHead(parse(uri), HeaderNames())


class Parsed:
    """A request as a server reads it."""

    def __init__(self, request: bytes) -> None:
        self.url = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = b""
        self.requests = 0
        parser = httptools.HttpRequestParser(self)
        parser.feed_data(request)
        self.method = parser.get_method()

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.requests += 1


def test_a_head_is_written_out():
    assert head().render(((b"ce-id", b"1"), (b"Ce-Type", b"a.b"), (b"x-empty", b"")), 12) == (
        b"POST /orders?a=1 HTTP/1.1\r\n"
        b"Host: shop.example\r\n"
        b"User-Agent: headrace\r\n"
        b"ce-id: 1\r\n"
        b"Ce-Type: a.b\r\n"
        b"x-empty: \r\n"
        b"Content-Length: 12\r\n"
        b"\r\n"
    )


def test_a_head_without_headers_has_a_length_all_the_same():
    assert head("http://shop.example:8080").render((), 0) == (
        b"POST / HTTP/1.1\r\nHost: shop.example:8080\r\nUser-Agent: headrace\r\nContent-Length: 0\r\n\r\n"
    )


def test_our_user_agent_gives_way_to_the_caller_s_each_time():
    request = head()
    for _ in range(2):
        assert b"User-Agent: headrace\r\n" in request.render((), 0)
        assert request.render(((b"user-agent", b"me"),), 0) == (
            b"POST /orders?a=1 HTTP/1.1\r\nHost: shop.example\r\nuser-agent: me\r\nContent-Length: 0\r\n\r\n"
        )


def test_every_bad_value_is_named():
    with pytest.raises(InvalidEvent) as refused:
        head().render(((b"a", b"1\n"), (b"b", b"2"), (b"c", b"\0")), 0)
    assert [fault.attribute for fault in refused.value.faults] == ["'a'", "'c'"]


def test_more_names_than_are_remembered_are_written_all_the_same():
    names = HeaderNames()
    request = RequestHead(parse("http://shop.example/"), names)
    for number in range(2000):
        assert b"\r\nx-%d: v\r\n" % number in request.render(((b"x-%d" % number, b"v"),), 0)
    assert len(names.ready) == 512


ANY = st.one_of(
    st.binary(max_size=12), st.sampled_from([b"host", b"Connection", b"ce-id", b"a\r\nb: c", b"user-agent", b"a\n"])
)


@unhurried
@given(headers=st.lists(st.tuples(ANY, ANY), max_size=6), body=st.binary(max_size=20))
@example(headers=[(b"a", b"1\r\n\r\nPOST /evil HTTP/1.1")], body=b"")
@example(headers=[(b"a", b"1\r\nContent-Length: 0")], body=b"GET / HTTP/1.1\r\n\r\n")
def test_whatever_the_headers_a_server_reads_one_request_with_these_headers_or_none_is_made(headers, body):
    try:
        rendered = head().render(tuple(headers), len(body))
    except InvalidEvent:
        return
    parsed = Parsed(rendered + body)
    assert (parsed.requests, parsed.method, parsed.url, parsed.body) == (1, b"POST", b"/orders?a=1", body)
    sent = [(name, value.strip(b" \t")) for name, value in headers if name.lower() not in OURS]
    added = {b"Host", b"User-Agent", b"Content-Length"}
    assert [(name, value.rstrip(b" \t")) for name, value in parsed.headers if name not in added] == sent

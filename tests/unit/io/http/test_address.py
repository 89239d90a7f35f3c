"""From URIs to addresses: as they were given, or refused in words that help."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.errors import InvalidSpec
from headrace.io.http.address import Address, parse

# How long an example takes on a busy machine is not what is tested.
unhurried = settings(deadline=None)


@pytest.mark.parametrize(
    ("uri", "address"),
    [
        pytest.param("http://shop.example", Address(False, "shop.example", 80, b"shop.example", b"/"), id="a host"),
        pytest.param(
            "https://shop.example/a/b?c=d&e#f",
            Address(True, "shop.example", 443, b"shop.example", b"/a/b?c=d&e"),
            id="path and query, but no fragment",
        ),
        pytest.param(
            "http://shop.example:80/", Address(False, "shop.example", 80, b"shop.example", b"/"), id="port of http"
        ),
        pytest.param(
            "https://shop.example:443/", Address(True, "shop.example", 443, b"shop.example", b"/"), id="port of https"
        ),
        pytest.param(
            "https://shop.example:80/", Address(True, "shop.example", 80, b"shop.example:80", b"/"), id="another port"
        ),
        pytest.param(
            "http://shop.example?", Address(False, "shop.example", 80, b"shop.example", b"/?"), id="empty query"
        ),
        pytest.param("http://Shop.Example.", Address(False, "shop.example.", 80, b"shop.example.", b"/"), id="case"),
        pytest.param(
            "shop.shop.svc.cluster.local/a",
            Address(False, "shop.shop.svc.cluster.local", 80, b"shop.shop.svc.cluster.local", b"/a"),
            id="no scheme is http",
        ),
        pytest.param("http://127.0.0.1:1/", Address(False, "127.0.0.1", 1, b"127.0.0.1:1", b"/"), id="IPv4"),
        pytest.param("http://[::1]:8080/", Address(False, "::1", 8080, b"[::1]:8080", b"/"), id="IPv6"),
        pytest.param("http://[fe80::1%25eth0]/", Address(False, "fe80::1%eth0", 80, b"[fe80::1]", b"/"), id="zone"),
        pytest.param(
            "http://b\u00fccher.example/\u00e9%2F?\u20ac",
            Address(False, "xn--bcher-kva.example", 80, b"xn--bcher-kva.example", b"/%C3%A9%2F?%E2%82%AC"),
            id="not ASCII",
        ),
        pytest.param("http://a_b.example/", Address(False, "a_b.example", 80, b"a_b.example", b"/"), id="underscore"),
        pytest.param("http://h/a%0d%0ab", Address(False, "h", 80, b"h", b"/a%0d%0ab"), id="encoded line end"),
        pytest.param("http://h/?a=http://x/y", Address(False, "h", 80, b"h", b"/?a=http://x/y"), id="URL in a query"),
    ],
)
def test_an_address(uri, address):
    assert parse(uri) == address


@pytest.mark.parametrize(
    ("uri", "name"),
    [("https://shop.example./", "shop.example"), ("https://[::1]/", "::1"), ("https://[fe80::1%25eth0]/", "fe80::1")],
)
def test_the_name_that_a_certificate_must_have(uri, name):
    assert parse(uri).server_name == name


@pytest.mark.parametrize(("uri", "shown"), [("http://h/a", "h:80"), ("https://[::1]:8443/a", "[::1]:8443")])
def test_an_address_is_shown_as_host_and_port(uri, shown):
    assert str(parse(uri)) == shown


@pytest.mark.parametrize(
    ("uri", "problem"),
    [
        pytest.param("http://h/a b", "blanks or control characters", id="blank"),
        pytest.param("http://h/a\r\nx: y", "blanks or control characters", id="line end"),
        pytest.param("http://h\n/", "blanks or control characters", id="line end in the host"),
        pytest.param("ftp://h/", "only http and https", id="another scheme"),
        pytest.param("http://me:secret@h/", "names a user or password", id="password"),
        pytest.param("http:///a", "has no host", id="no host"),
        pytest.param("http://h\u00b4/", "is no domain name", id="an accent that becomes a blank"),
        pytest.param('http://h"/', "is no domain name", id="a host that holds more than names may"),
        pytest.param("http://h/\ud800", "holds half a character", id="half a surrogate pair"),
        pytest.param("http://h:99999/", "is not a URL", id="no port"),
        pytest.param("http://a..b/", "is no domain name", id="empty label"),
        pytest.param(f"http://{'a' * 64}.example/", "is no domain name", id="long label"),
        pytest.param("http://stra\u00dfe.example/", "can be read in two ways", id="two IDNA standards"),
    ],
)
def test_what_no_request_can_be_made_of_is_refused(uri, problem):
    with pytest.raises(InvalidSpec, match=problem) as refused:
        parse(uri)
    assert "secret" not in str(refused.value)


ANY_TEXT = st.text(st.characters(), max_size=40)


@unhurried
@given(ANY_TEXT.map("http://h{}".format) | ANY_TEXT | ANY_TEXT.map("http://[::1{}".format))
def test_whatever_the_uri_nothing_of_it_can_break_a_request_line(uri):
    try:
        address = parse(uri)
    except InvalidSpec:
        return
    for part in (address.host_header, address.target):
        assert part.isascii()
        assert not any(byte <= 0x20 or byte == 0x7F for byte in part)
    assert address.target.startswith(b"/")
    assert 0 <= address.port <= 65535

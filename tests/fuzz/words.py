"""Targets: single words out of manifests, hosts and paths: addresses, durations, names."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from hypothesis import strategies as st

from headrace.core import duration, names
from headrace.core.errors import InvalidSpec
from headrace.core.event import uri
from headrace.io.http import address
from headrace.io.http.request import HeaderNames, RequestHead
from tests.fuzz import mutations
from tests.fuzz.records import dead_letter
from tests.fuzz.target import Target

URIS = (
    "http://billing.shop.svc.cluster.local/path?q=1#f",
    "https://[fe80::1%25eth0]:8443/",
    "http://bücher.example:80",
    "host/path",
)
_URI_WORDS = (
    *(
        "http://",
        "://",
        "@",
        "＠",
        "user:pw@",
        "%0d%0a",
        "%00",
        ":0",
        ":65536",
        ":-1",
        "[",
        "]",
        "?",
        "#",
        "/../",
        "\\",
    ),
    *("ß", "\u200d", "。", "\u0085", "\ufdd0", "½", "xn--", "." * 3, "a" * 64, "\u2100"),
)
SPANS = ("PT0.5S", "P1DT2H3M4.5S", "1h30m", "500ms", "0", "1.5h", ".5s", "P999999999DT23H59M59.999999S", "PT0.0000001S")
_SPAN_WORDS = ("P", "T", "D", "H", "M", "S", "ns", "us", "µs", "9" * 30, "9" * 400, "-", "+", "e9", ".", "٣", "_")


def _hold_uri(given: str, text: str) -> None:
    assert uri.checked_uri(text, field="uri") == text
    head = RequestHead(address.parse(text), HeaderNames()).render((), 0)
    assert head.count(b"\r") == head.count(b"\n") == 5
    assert head.count(b" ") == 5, f"the request line has more than three words: {head!r}"
    assert b"\0" not in head
    dead_letter(text)
    _shows_no_secret(text)


def _read_uri(given: str) -> str:
    uri.redacted(given)
    uri.hidden(given)
    uri.without_query(given)
    return uri.checked_uri(given, field="uri")


def _shows_no_secret(text: str) -> None:
    secret = "zzsecretzz"
    for hiding in (f"{text}/{secret}", f"http://u:{secret}@{text}", f"{text}?{secret}"):
        assert secret not in uri.redacted(hiding), f"{hiding!r} is shown as {uri.shown(hiding)}"


def _read_span(given: str) -> tuple[timedelta | None, timedelta | None]:
    """As ISO 8601 and as Go's; one of the two at most."""
    try:
        iso = duration.from_iso(given, field="f")
    except InvalidSpec:
        return None, duration.from_go(given, field="f")
    return iso, None


def _hold_span(given: str, result: tuple[timedelta | None, timedelta | None]) -> None:
    for span in result:
        if span is not None:
            assert span >= timedelta()
            assert duration.from_iso(duration.to_iso(span), field="f") == span


class _Named(NamedTuple):
    channel: names.Channel | None
    by_host: names.Channel | None
    by_path: names.Channel | None
    durable: str | None


def _read_names(given: tuple[str, str, str]) -> _Named:
    namespace, name, words = given
    by_host, by_path = names.channel_of_host(words), names.channel_of_path(words)
    names.parse_stream(words)
    try:
        durable = names.durable(words)
    except InvalidSpec:
        durable = None
    try:
        found = names.channel(namespace, name)
    except InvalidSpec:
        found = None
    return _Named(found, by_host, by_path, durable)


def _hold_names(given: tuple[str, str, str], found: _Named) -> None:
    namespace, name, _ = given
    for channel in (found.channel, found.by_host, found.by_path):
        if channel is not None:
            _is_subject(channel.subject, 3)
            _is_subject(channel.stage_subject("C", 1), 6)
            assert len(channel.label) <= 63
    if found.durable is not None:
        assert found.durable.isascii()
        assert found.durable.replace("_", "").isalnum()
    if found.channel is not None:
        stream = names.stream(namespace, name)
        assert len(stream) <= 180
        assert stream.isascii()
        assert stream.replace("_", "").isalnum()
        assert names.channel_of_host(names.host(namespace, name)) == found.channel
        assert names.channel_of_path(names.path(namespace, name)) == found.channel
        if names.is_plain(namespace, name):
            assert names.parse_stream(stream) == (namespace, name)


def _is_subject(subject: str, tokens: int) -> None:
    parts = subject.split(".")
    assert len(parts) == tokens, f"{subject!r} has not {tokens} tokens"
    assert all(parts), f"{subject!r} has an empty token"
    assert subject.isascii()
    assert subject.isprintable()
    assert not set(subject) & set("*> "), f"{subject!r} holds a wildcard"


_namespaces = mutations.mutated_text(["shop", "a--b", "kn-1"], ["-", "--", ".", "*", ">", "A", "_", "\n"])
_channel_names = mutations.mutated_text(
    ["orders", "a.b", "a--b", "x" * 60, "x" * 16 + "0123456789abcdef" * 2],
    ["-", "--", ".", "*", ">", "A", "_", "\n", "é"],
)
_words = mutations.mutated_text(
    [
        "orders-kn-jsm-channel.shop.svc.cluster.local:8080",
        "orders-kn-jsm-channel.shop",
        "/shop/orders/",
        "KN_SHOP__ORDERS",
        "5d0a2f1c-0000-4000-8000-000000000001",
    ],
    ["-kn-jsm-channel", "/", ".", ":", ".svc", "%2f", "//", "K", "ı", "*", ">"],
)

TARGETS = (
    Target("uri", mutations.mutated_text(URIS, _URI_WORDS), URIS, _read_uri, _hold_uri, (InvalidSpec,)),
    Target("duration", mutations.mutated_text(SPANS, _SPAN_WORDS), SPANS, _read_span, _hold_span, (InvalidSpec,)),
    Target(
        "names",
        st.tuples(_namespaces, _channel_names, _words),
        (("shop", "orders", "/shop/orders"), ("a--b", "x" * 60, "orders-kn-jsm-channel.shop")),
        _read_names,
        _hold_names,
        (),
    ),
)

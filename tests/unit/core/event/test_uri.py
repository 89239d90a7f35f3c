"""Which addresses can be delivered to, and that no message tells more of one than its scheme and host."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import InvalidSpec
from headrace.core.event.uri import checked_uri, hidden, redacted, without_query
from headrace.core.manifest import manifest
from tests.support.functions.channels import channel

SECRET = "TOPSECRET"


@pytest.mark.parametrize(
    "uri",
    [
        "http://billing/",
        "https://billing.shop.svc:8443/a?b=c",
        "http://10.1.2.3",
        "http://[::1]:80/",
        "http://[fe80::1%25eth0]/",
        "HTTP://Billing/",
        "http://m\u00fcnchen.example./",
        "http://under_score.example/",
        f"http://{'a' * 63}.example/",
        "http://billing/@home?at=a@b",
    ],
)
def test_addresses_fit_to_post_to_are_taken_as_they_are(uri: str) -> None:
    assert checked_uri(uri, field="subscriberUri") == uri


def test_a_bare_host_is_taken_as_http() -> None:
    assert checked_uri("billing.shop/path", field="subscriberUri") == "http://billing.shop/path"


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("ftp://billing/", "only http and https"),
        ("file:///etc/passwd", "only http and https"),
        ("http://", "no host"),
        ("/dead", "no host"),
        ("http://bil ling/", "blanks or control characters"),
        ("http://billing/\r\nX: 1", "blanks or control characters"),
        ("http://billing/\x85", "blanks or control characters"),
        ("http://billing/\ud800", "half a character"),
        ("http://billing/\ufdd0", "what is none"),
        ("http://billing:99999/", "not a URL"),
        ("http://[::1/", "not a URL"),
        ("http://[v1.a:b]/", "no IPv6 address"),
        (f"http://{'a' * 64}.example/", "longer than 63"),
        (f"http://{'ü' * 60}.example/", "longer than 63"),
        (f"http://{'.'.join(['a' * 60] * 5)}/", "longer than the 253"),
        (f"http://{'.'.join(['ü' * 40] * 6)}/", "longer than the 253"),
        ("http://a..b/", "a label is empty"),
        ("http://bil*ling/", "letters, digits"),
        ("http://stra\u00dfe.example/", "read in two ways"),
    ],
)
def test_addresses_that_can_not_be_posted_to_are_refused(uri: str, says: str) -> None:
    with pytest.raises(InvalidSpec, match=says) as refused:
        checked_uri(uri, field="subscriberUri")

    assert refused.value.field == "subscriberUri"


@pytest.mark.parametrize(
    "uri",
    [
        f"http://user:{SECRET}@billing/",
        f"http://user:{SECRET}/rest@billing/",
        f"http://user:{SECRET}",
        f"http://billing:{SECRET}/",
        f"http://bil ling/hook?token={SECRET}",
        f"ftp://billing/{SECRET}",
        f"ftp://billing#{SECRET}",
        f"http:///{SECRET}",
        f"http:/x?{SECRET}://",
        f"/{SECRET}",
        f"?token={SECRET}",
        f"http://{'a' * 64}.example/hook?token={SECRET}",
        f"http://a..b/hook/{SECRET}",
        f"http://a*b/hook?token={SECRET}",
        f"http://stra\u00dfe/hook?token={SECRET}",
        f"http://[v1.a:b]/{SECRET}",
        f"http://[::1/{SECRET}",
    ],
)
def test_a_refused_address_keeps_its_secrets(uri: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        checked_uri(uri, field="subscriberUri")

    assert SECRET not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("https://billing.shop:8443/hook?token=x", "'https://billing.shop'"),
        ("http://[::1]:80/hook", "'http://[::1]'"),
        ("billing.shop/hook", "'billing.shop'"),
        ("http://user:pass@billing/", "'http://\u2026'"),
        ("http://user:pass\uff20billing/", "'http://\u2026'"),
        ("http://billing/\n?x", "'http://billing'"),
        ("/hook", "'/\u2026'"),
        ("?token=x", "'?\u2026'"),
        ("/u:pass@billing", "'\u2026'"),
        ("", "''"),
    ],
)
def test_of_an_address_scheme_and_host_are_shown(uri: str, told: str) -> None:
    assert redacted(uri) == told


def test_addresses_in_the_words_of_others_are_cut() -> None:
    text = f"no way to 'http://billing/hook?token={SECRET}' or https://u:{SECRET}@b/x, in 3 s"
    assert hidden(text) == "no way to 'http://billing' or https://\u2026 in 3 s"


@pytest.mark.parametrize("uri", ["http://billing/hook?token=x", "http://billing/hook#x", "http://billing/hook"])
def test_what_is_kept_with_a_parked_event_has_no_query(uri: str) -> None:
    assert without_query(uri) == "http://billing/hook"


def test_a_manifest_with_an_address_in_the_wrong_place_is_refused_without_its_query() -> None:
    misplaced = channel(delivery={"deadLetterSink": f"http://dead/hook?token={SECRET}"})
    with pytest.raises(InvalidSpec) as refused:
        manifest.parse(misplaced)
    assert str(refused.value) == (
        "spec.delivery.deadLetterSink is 'http://dead': it should be an object: give {uri: http://host/path}"
    )


@given(st.text() | st.from_regex(re.compile(r"https?://[^\s/]{0,80}(:\d*)?/.*"), fullmatch=True))
def test_any_text_is_an_address_or_refused(uri: str) -> None:
    try:
        checked_uri(uri, field="subscriberUri")
    except InvalidSpec as refused:
        assert len(str(refused)) < 400  # noqa: PT017  # no error at all is fine, too

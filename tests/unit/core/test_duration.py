"""Time spans as manifests write them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core import duration
from headrace.core.errors import InvalidSpec


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("PT0S", timedelta()),
        ("PT1S", timedelta(seconds=1)),
        ("PT0.2S", timedelta(milliseconds=200)),
        ("PT.5S", timedelta(milliseconds=500)),
        ("PT1M", timedelta(minutes=1)),
        ("PT2H30M", timedelta(hours=2, minutes=30)),
        ("P1D", timedelta(days=1)),
        ("P1DT12H", timedelta(days=1, hours=12)),
        ("PT90S", timedelta(seconds=90)),
    ],
)
def test_iso_durations_of_deliveries_are_read(text: str, span: timedelta) -> None:
    assert duration.from_iso(text, field="spec.delivery.timeout") == span


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "P1DT", "10s", "1", "PT1", "P1Y", "P1M", "P1W", "-PT1S", "PT-1S", "pt1s", " PT1S", "PT1S\n"]
)
def test_what_is_no_iso_duration_is_quoted_with_its_field_and_an_example(text: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        duration.from_iso(text, field="spec.delivery.timeout")

    assert refused.value.field == "spec.delivery.timeout"
    assert f"spec.delivery.timeout is {text!r}" in str(refused.value)
    assert "PT10S" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("0", timedelta()),
        ("0s", timedelta()),
        ("500ms", timedelta(milliseconds=500)),
        ("1.5h", timedelta(minutes=90)),
        ("1h30m", timedelta(minutes=90)),
        ("2m0.5s", timedelta(minutes=2, milliseconds=500)),
        ("250us", timedelta(microseconds=250)),
        ("250µs", timedelta(microseconds=250)),
        ("5000ns", timedelta(microseconds=5)),
        (".5s", timedelta(milliseconds=500)),
    ],
)
def test_go_durations_of_templates_are_read(text: str, span: timedelta) -> None:
    assert duration.from_go(text, field="spec.stream.config.maxAge") == span


@pytest.mark.parametrize("text", ["", "5", "1h 30m", "1d", "PT1S", "-1s", "1e3s", "h", "1hx", "s1"])
def test_what_is_no_go_duration_is_quoted_with_its_field_and_an_example(text: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        duration.from_go(text, field="spec.stream.config.maxAge")

    assert refused.value.field == "spec.stream.config.maxAge"
    assert f"spec.stream.config.maxAge is {text!r}" in str(refused.value)
    assert "30s" in str(refused.value)


@pytest.mark.parametrize(("read", "text"), [(duration.from_iso, "P9999999999D"), (duration.from_go, "9" * 20 + "h")])
def test_a_span_beyond_all_clocks_is_refused(read: object, text: str) -> None:
    with pytest.raises(InvalidSpec, match="longer than any clock can wait"):
        read(text, field="spec")  # type: ignore[operator]  # both readers have this signature


@given(st.timedeltas(min_value=timedelta()))
def test_what_is_written_is_read_back(span: timedelta) -> None:
    assert duration.from_iso(duration.to_iso(span), field="timeout") == span


@pytest.mark.parametrize("read", [duration.from_iso, duration.from_go])
@pytest.mark.parametrize(
    "text", ["1" * 100_000, "1" * 100_000 + "h" * 2, "PT" + "9" * 5000 + "S", "1ns" * 30_000 + "x"]
)
def test_a_text_of_any_length_is_refused_in_no_time(read: object, text: str) -> None:
    # It took minutes when a search began again at each digit.
    with pytest.raises(InvalidSpec) as refused:
        read(text, field="spec")  # type: ignore[operator]  # both readers have this signature
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("text", ["PT\u0663S", "\u0663s"])
def test_digits_of_other_alphabets_are_none(text: str) -> None:
    for read in (duration.from_iso, duration.from_go):
        with pytest.raises(InvalidSpec):
            read(text, field="spec")


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(), "PT0S"),
        (timedelta(seconds=10), "PT10S"),
        (timedelta(milliseconds=200), "PT0.2S"),
        (timedelta(minutes=9), "PT540S"),
    ],
)
def test_spans_are_written_as_iso_seconds(span: timedelta, text: str) -> None:
    assert duration.to_iso(span) == text

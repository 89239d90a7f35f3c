"""How values look, and how people may type them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import Misconfigured
from headrace.core.event.event import make_event
from headrace_cli.events import bench
from headrace_cli.events.compose import Form, from_form, from_lines
from headrace_cli.events.filters import EventFilter, event_filter
from headrace_cli.view import event as view
from headrace_cli.view import output, units
from headrace_cli.view.progress import Progress

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
EVENT = make_event(
    {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "datacontenttype": "application/json", "n": "x"},
    b'{"a": 1}',
)


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 * 2**30, "3.0 GiB"), (2**41, "2.0 TiB"), (-1, "unlimited")],
)
def test_sizes(count: int, shown: str) -> None:
    assert units.size(count) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.2, "0s"), (59, "59s"), (61, "1m"), (7199, "119m"), (7200, "2h"), (200_000, "2d"), (-5, "0s")],
)
def test_ages(seconds: float, shown: str) -> None:
    assert units.age(NOON - timedelta(seconds=seconds), NOON) == shown
    assert units.age(None, NOON) == "-"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("10m", NOON - timedelta(minutes=10)),
        ("3d", NOON - timedelta(days=3)),
        ("90", NOON - timedelta(seconds=90)),
        ("2026-01-31T09:30:00Z", NOON - timedelta(hours=2.5)),
        ("2026-01-31T09:30:00.123456789+00:00", NOON - timedelta(hours=2.5) + timedelta(microseconds=123456)),
    ],
)
def test_times_that_people_type(typed: str, meant: datetime) -> None:
    assert units.asked_moment(typed, NOON, "--since") == meant


@pytest.mark.parametrize("typed", ["soon", "10x", "", "2026-13-01T00:00:00Z"])
def test_what_is_no_time_is_quoted(typed: str) -> None:
    with pytest.raises(Misconfigured, match=f"--since is '{typed}': give a time"):
        units.asked_moment(typed, NOON, "--since")


def test_the_servers_zero_time_is_never() -> None:
    assert units.moment("0001-01-01T00:00:00Z") is None
    assert units.moment("2026-01-31T12:00:00.000000001Z") == NOON


def test_a_table_is_aligned_and_holds_nothing_that_a_terminal_obeys() -> None:
    columns = (("NAME", lambda item: item["name"]), ("N", lambda item: item["n"]))

    shown = output.table(columns, [{"name": "a\x1b[2J", "n": 1}, {"name": "bb", "n": 22}])

    assert shown == "NAME       N\na\\x1b[2J   1\nbb         22\n"
    assert output.table(columns, []) == ""


def test_a_line_can_be_sent_again() -> None:
    ((number, again),) = from_lines([view.line(EVENT, sequence=7).encode() + b"\n"])

    assert number == 1
    assert again == EVENT


@pytest.mark.parametrize(
    "data",
    [
        b'{"price": 1.10, "odds": 0.1000000000000000055, "huge": 1e999, "a": 1, "a": 2}',
        b'{"half": "\\ud800"}',
        b"1" * 5000,
    ],
)
def test_what_json_can_say_and_python_can_not_is_sent_again_as_it_was(data: bytes) -> None:
    event = make_event({**EVENT.attributes, "datacontenttype": "application/json"}, data)
    text = view.line(event, sequence=7)

    assert [again for _, again in from_lines([text.encode() + b"\n"])] == [event]
    batch = f"[{view.write_json(event)}, {view.write_json(event)}]"
    assert [again for _, again in from_lines([batch.encode()])] == [event, event]


@pytest.mark.parametrize("kind", ["application/json", "text/plain"])
def test_a_line_holds_nothing_that_a_terminal_obeys_and_says_the_same(kind: str) -> None:
    data = '{\n\t"a": "\x9b31m\x7f\u202e\U000e0001"\r\n}'
    event = make_event({**EVENT.attributes, "datacontenttype": kind}, data.encode())

    text = view.line(event, reason="\x1b[2J\x9b31m\udc80")

    assert text.isprintable()
    text.encode()
    told = json.loads(text)
    assert told["reason"] == "\x1b[2J\x9b31m\udc80"
    assert told["event"]["data"] == (data if kind == "text/plain" else json.loads(data))
    assert output.text_of({"a": "\x9b\ud800é"}, "json") == '{\n  "a": "\\u009b\\ud800é"\n}\n'


# C0, DEL and C1; what turns text around; what people can't see; ends of lines that only some programs know.
STRANGE = "\0\x07\x1b\x7f\x80\x85\x9b\x9d\u061c\u200b\u200e\u2028\u2029\u202a\u202e\u2066\u2069\ufeff\U000e0001\ud800"
HOSTILE = st.text(st.sampled_from(STRANGE + "a é\n\r\t:#-|'\"{"))
VALUES = st.recursive(
    HOSTILE | st.text() | st.none() | st.booleans() | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(HOSTILE, inner, max_size=3),
    max_leaves=6,
)


@given(VALUES, st.sampled_from(["json", "yaml"]))
def test_for_scripts_any_value_is_read_back_as_it_was_and_holds_nothing_that_a_terminal_obeys(
    value: Any, form: str
) -> None:
    text = output.text_of({"it": value}, form)

    assert all(line.isprintable() for line in text.split("\n"))
    assert (json.loads if form == "json" else yaml.safe_load)(text) == {"it": value}


@given(st.lists(HOSTILE, min_size=1), st.sampled_from(["table", "wide", "name"]))
def test_nor_does_what_is_for_people(texts: list[str], form: str) -> None:
    items = [{"name": each, "namespace": each} for each in texts]

    shown = output.list_text(items, form, output.columns("NAME NAMESPACE"))
    shown += output.item_text(items[0], form, lambda item: f"{item['name']}\n{output.fields([*item.items()])}")

    assert all(line.isprintable() for line in shown.split("\n"))


def test_text_of_several_lines_stays_readable_in_yaml_beside_letters_of_any_language() -> None:
    assert output.text_of({"größe": "é\nü\n"}, "yaml") == "größe: |\n  é\n  ü\n"


def test_one_event_may_be_laid_out_over_lines() -> None:
    body = json.dumps(json.loads(view.write_json(EVENT)), indent=2).encode()

    ((_, event),) = from_lines(body.splitlines(keepends=True))

    assert (event.attributes, json.loads(event.data)) == (EVENT.attributes, {"a": 1})


def test_a_batch_is_its_events() -> None:
    one = json.loads(view.write_json(EVENT))
    two = [one, {**one, "id": "2"}]

    assert [event.id for _, event in from_lines([json.dumps(two).encode()])] == ["1", "2"]


def test_new_ids_are_given_to_all_and_nothing_else_changes() -> None:
    kept = b'{"specversion": "1.0", "id": "a", "source": "/s", "type": "t", "data": {"price": 1.10, "id": "x"}}\n'
    without = b'{"specversion": "1.0", "source": "/s", "type": "t"}\n'
    numbers = map(str, count(1))

    first, again, third = (event for _, event in from_lines([kept, kept, without], lambda: next(numbers)))

    assert [first.id, again.id, third.id] == ["1", "2", "3"]
    assert first.data == b'{"price": 1.10, "id": "x"}'
    ((_, batched),) = from_lines([b"[" + kept + b"]"], lambda: "new")
    ((_, told),) = from_lines([view.line(EVENT, sequence=7).encode()], lambda: "new")
    assert (batched.id, told.id) == ("new", "new")


@pytest.mark.parametrize(
    ("attribute", "values"),
    [
        ("partitionkey", {"r-0", "r-1", "r-2"}),
        ("subject", {"r-0", "r-1", "r-2"}),
        ("source", {"/kn-jetstream/bench/r/0", "/kn-jetstream/bench/r/1", "/kn-jetstream/bench/r/2"}),
        ("type", {"headrace.bench/0", "headrace.bench/1", "headrace.bench/2"}),
        ("id", {f"r-{number}" for number in range(9)}),
        ("time", {None}),
    ],
)
def test_the_events_of_a_bench_have_so_many_keys(attribute: str, values: set[str | None]) -> None:
    events = [bench.event("r", number, b"", {attribute: number % 3}) for number in range(9)]
    assert {event.attributes.get(attribute) for event in events} == values


def test_a_line_that_is_no_json_is_named_and_those_before_it_are_given() -> None:
    lines = from_lines([view.line(EVENT).encode() + b"\n", b"\n", b"{oops\n", view.line(EVENT).encode()])

    assert next(lines) == (1, EVENT)
    with pytest.raises(Misconfigured, match="line 3 is no JSON"):
        next(lines)


@pytest.mark.parametrize(
    ("data", "content_type"),
    [(b'{"a": 1}', "application/json"), (b"hello", "text/plain"), (b"\xff\x00", "application/octet-stream")],
)
def test_the_content_type_is_what_the_data_look_like(data: bytes, content_type: str) -> None:
    event = from_form(Form("t", "/s", data=data), lambda: "1", "2026-01-31T12:00:00Z")

    assert (event.datacontenttype, event.data) == (content_type, data)


def test_fields_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(Misconfigured, match="but a has a value already"):
        from_form(Form("t", "/s", fields=("a=1", "a.b=2")), lambda: "1", "2026-01-31T12:00:00Z")


@pytest.mark.parametrize(
    ("asked", "matches"),
    [
        (EventFilter(), True),
        (event_filter(["x", "t"], [], []), True),
        (event_filter(["x"], [], []), False),
        (event_filter([], ["/?"], ["n=x*"]), True),
        (event_filter([], [], ["n=x", "other="]), True),
        (event_filter([], [], ["n=y"]), False),
        (event_filter([], [], ["missing=?*"]), False),
    ],
)
def test_wanted_events(asked: EventFilter, matches: bool) -> None:
    assert asked.matches(EVENT) is matches


def test_the_pretty_form() -> None:
    assert view.pretty(EVENT, "#7") == (
        "#7\n  id:               1\n  source:           /s\n  type:             t\n"
        '  datacontenttype:  application/json\n  n:                x\n  {\n    "a": 1\n  }\n'
    )


def test_progress_says_how_far_and_how_long() -> None:
    progress = Progress("replayed", 200)
    progress.done = 50

    assert progress.line(progress._began + 10) == "replayed 50 of 200 (25 %) events, 5/s, 30 s left"

"""The parts of the bench that could be wrong without anyone noticing: what is sent, and how numbers are condensed."""

from __future__ import annotations

import json
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from bench import chart, report
from bench.closed import Loop
from bench.requests import Mode, template
from bench.row import NotMeasured, Row
from bench.rows import rows
from bench.sample import Sample
from headrace.core.event.http_codec import HttpMessage, from_http


def nothing(*_):
    raise AssertionError("not called")


FLOOR = Row("floor", "what can't be saved", nothing)
OURS = Row("ours", "what we do", nothing, floor="floor", go_channel_us=100.0)
FACTS = {"cores": 2}


def sample(cpu_seconds: float, seconds: float = 1.0) -> Sample:
    return Sample(events=1000, seconds=seconds, cpu_seconds=cpu_seconds)


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("number", [0, 1, 999_999_999])
def test_every_request_is_a_valid_event_of_its_own_with_1_kib_of_data(mode, number):
    head, body = template(mode, "/bench/orders", "run").request(number).split(b"\r\n\r\n", 1)
    opening, *lines = head.split(b"\r\n")
    headers = tuple((name, value) for name, value in (line.split(b": ", 1) for line in lines))
    event = from_http(HttpMessage(headers, body))
    assert opening == b"POST /bench/orders HTTP/1.1"
    assert dict(headers)[b"content-length"] == str(len(body)).encode()
    assert event.id == f"run-{number:09d}"
    assert len(event.data) == 1024
    assert json.loads(event.data)["order"] == 4711


@pytest.mark.parametrize("mode", list(Mode))
def test_a_request_that_shows_a_token_is_the_same_but_for_that(mode):
    found = template(mode, "/bench/orders", "run", "Bearer a.b.c").request(7)
    assert found.count(b"authorization: Bearer a.b.c\r\n") == 1
    plain = template(mode, "/bench/orders", "run").request(7)
    assert found.replace(b"authorization: Bearer a.b.c\r\n", b"") == plain


@pytest.mark.parametrize("mode", list(Mode))
def test_a_request_in_two_writes_is_the_same_request(mode):
    requests = template(mode, "/bench/orders", "run")
    head, body = requests.head_and_body(7)
    assert head + body == requests.request(7)
    assert head.endswith(b"\r\n\r\n")
    assert head.count(b"\r\n\r\n") == 1


def test_every_kind_of_traffic_to_receive_is_held_against_bare_asgi_on_the_same():
    on_plain = {"-structured", "-types", "-tokens"}
    kinds = {row.name.removeprefix("receive") for row in rows() if row.name.startswith("receive")} - on_plain
    assert kinds == {"", "-two-writes", "-proxied", "-1", "-1-two-writes", "-1-proxied"}
    assert {row.name: row.floor for row in rows() if row.name.startswith("receive")} == {
        **{f"receive{kind}": "floor" for kind in on_plain},
        **{f"receive{kind}": f"floor{kind}" for kind in kinds},
    }


def test_a_row_behind_a_proxy_says_why_it_is_not_measured():
    stage = SimpleNamespace(floor=None, proxied_floor=None)
    proxied = next(row for row in rows() if row.name == "floor-proxied")
    with pytest.raises(NotMeasured, match="there is no Go"):
        proxied.measure(stage, 1)
    assert (
        report.legend([proxied], {"floor-proxied": "no Go"})
        .splitlines()[0]
        .endswith("sends it on: not measured, no Go")
    )


def test_the_events_of_a_closed_loop_wait_from_their_acceptance_to_their_arrival():
    loop = Loop(template(Mode.BINARY, "/bench/orders", "run"), events=4, run="run")
    for _ in range(4):
        assert loop.next()
        loop.accepted()
        loop.arrived(b"run-000000001")
    assert loop.next() is None
    assert (loop.waiting_half, loop.waiting_end) == (1, 3)
    assert not loop.all_there.is_set()


def test_the_median_round_counts_and_is_held_against_the_floors_median():
    samples = {
        "floor": [sample(0.030), sample(0.020), sample(0.900)],
        "ours": [sample(0.060, seconds=0.5), sample(0.090, seconds=0.25), sample(0.050, seconds=1.0)],
    }
    floor, ours = report.results([FLOOR, OURS], samples)
    assert (floor.cpu_us_per_event, floor.ratio_to_floor) == (30.0, None)
    assert (ours.cpu_us_per_event, ours.ratio_to_floor, ours.events_per_s) == (60.0, 2.0, 2000)
    assert (ours.floor, ours.go_channel_cpu_us_per_event, ours.rounds) == ("floor", 100.0, 3)


def test_a_json_line_names_the_bench_its_numbers_and_the_machine():
    [result] = report.results([FLOOR], {"floor": [sample(0.030)]})
    line = report.as_json(result, FACTS)
    assert (line["bench"], line["cpu_us_per_event"], line["events_per_s"]) == ("floor", 30.0, 1000)
    assert line["ratio_to_floor"] is None
    assert line["machine"] == {"cores": 2}


def test_the_columns_of_the_table_are_aligned():
    found = report.results([FLOOR, OURS], {"floor": [sample(0.030)], "ours": [sample(0.060)]})
    header, _, *lines = report.table(found).splitlines()
    assert [len(line) for line in lines] == [len(header)] * 2
    assert lines[1].split() == ["ours", "60.0", "2.00", "1,000", "100.0"]


def test_the_chart_has_a_bar_for_each_row_and_one_for_the_go_channel_where_it_was_measured():
    found = report.results([FLOOR, OURS], {"floor": [sample(0.030)], "ours": [sample(0.060)]})
    drawn = ElementTree.fromstring(chart.svg(found, FACTS))
    bars = [rect for rect in drawn.iter("{http://www.w3.org/2000/svg}rect") if rect.get("rx")]
    assert [bar.get("fill") for bar in bars] == [chart.FLOOR, chart.OURS, chart.THEIRS]


def test_a_row_has_a_name_that_can_be_typed():
    assert [row.name for row in rows() if not row.name.replace("-", "").isalnum()] == []

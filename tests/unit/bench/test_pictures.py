"""The pictures of docs are those of what is committed, and none of them is empty."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bench.pictures import dashboard, graph, scale, screens, terminal, values
from bench.pictures.values import Run
from infra.generate.dashboards import ALL

ROOT = Path(__file__).parents[3]
EACH = pytest.mark.parametrize("uid", [each.uid for each in ALL])
RUN = Run(1000.0, 1300.0, {"cores": "2"}, [(60.0, "it breaks")], {}, {})


def texts(svg: str) -> list[str]:
    return ["".join(each.itertext()) for each in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def committed(uid: str) -> dict[str, Any]:
    return next(each for each in values.dashboards() if each["uid"] == uid)


@EACH
def test_the_picture_of_a_dashboard_shows_each_of_its_panels_with_values(uid: str) -> None:
    shown = texts(dashboard.file(uid).read_text())

    missing = [panel["title"] for panel in committed(uid)["panels"] if panel["title"] not in shown]
    assert missing == [], "run `task pictures`"
    assert "No data" not in shown


@EACH
def test_the_picture_of_a_dashboard_is_on_the_page_of_metrics(uid: str) -> None:
    assert f"](dashboards/{uid}.svg)" in (ROOT / "docs/metrics.md").read_text()


@pytest.mark.parametrize("name", screens.NAMES)
def test_a_screen_shows_its_commands_and_is_on_the_page_of_the_plugin(name: str) -> None:
    shown = texts(terminal.file(name).read_text())

    commands = [command for moment in screens.MOMENTS.values() for command in moment.get(name, ())]
    assert [command for command in commands if f"$ {command}" not in shown] == [], "run `task pictures`"
    assert f"](screens/{name}.svg)" in (ROOT / "docs/kn-plugin.md").read_text()


def test_no_picture_is_left_of_what_is_no_more() -> None:
    assert {file.stem for file in dashboard.FOLDER.iterdir()} == {each.uid for each in ALL}
    assert {file.stem for file in terminal.FOLDER.iterdir()} == set(screens.NAMES)


def test_a_panel_without_values_says_so_and_is_told() -> None:
    board = committed("headrace-storage")
    titles = [panel["title"] for panel in board["panels"]]
    lines = {title: [("orders", [(1000.0, 1.0), (1002.0, 3.0)])] for title in titles[:-1]}
    run = Run(RUN.began, RUN.ended, {}, RUN.acts, {board["uid"]: {**lines, titles[-1]: []}}, {})

    assert texts(dashboard.svg(board, run)).count("No data") == 1
    assert run.empty() == [f"headrace-storage: {titles[-1]}"]


def test_a_kept_run_is_read_again() -> None:
    run = Run(1.0, 2.0, {"cores": "2"}, [(60.0, "so")], {"a": {"b": [("c", [(1.0, 2.0)])]}}, {"d": [("e", "f")]})

    assert json.loads(Run.of(run.text()).text()) == json.loads(run.text())


def test_what_happened_is_told_below_with_its_number_and_time() -> None:
    assert "1  it breaks (1:00)" in texts(dashboard.svg(committed("headrace-lag"), RUN))


def test_a_line_is_interrupted_where_points_are_missing() -> None:
    found = graph.pieces([(0.0, 1.0), (2.0, 1.0), (8.0, 1.0)])

    assert found == [[(0.0, 1.0), (2.0, 1.0)], [(8.0, 1.0)]]


def test_what_lies_on_a_level_line_is_left_out_and_its_corners_are_not() -> None:
    assert graph.along([(0, 5), (1, 5), (2, 5), (3, 9), (4, 5)]) == "0.0 5.0 L2.0 5.0 L3.0 9.0 L4.0 5.0"


@pytest.mark.parametrize(
    ("value", "unit", "most", "words"),
    [
        pytest.param(0.0043, "s", 0, "4.3 ms", id="milliseconds"),
        pytest.param(90.0, "s", 0, "90 s", id="few minutes are seconds"),
        pytest.param(0.0, "s", 0, "0 s", id="no time"),
        pytest.param(17_500, "short", 0, "17.5 K", id="thousands"),
        pytest.param(500, "short", 2000, "0.5 K", id="the unit of the axis"),
        pytest.param(512 * 1024, "bytes", 2 * 1024**2, "0.5 MiB", id="bytes"),
        pytest.param(0.075, "short", 0.1, "0.075", id="thousandths"),
        pytest.param(0.0, "eps", 2000, "0 ev/s", id="nothing has no thousands"),
        pytest.param(0.25, "percentunit", 1, "25 %", id="parts"),
        pytest.param(123.4, "eps", 0, "123 ev/s", id="events in a second"),
    ],
)
def test_numbers_are_worded_for_people(value: float, unit: str, most: float, words: str) -> None:
    assert scale.worded(value, unit, most) == words


@pytest.mark.parametrize(
    ("most", "unit", "marks"),
    [
        pytest.param(0.0, "short", (0, 1), id="nothing at all"),
        pytest.param(87.0, "short", (0, 25, 50, 75, 100), id="round steps"),
        pytest.param(1.9 * 1024**2, "bytes", tuple(n * 1024**2 / 2 for n in range(5)), id="round in MiB"),
    ],
)
def test_ticks_are_round_and_reach_the_highest_value(most: float, unit: str, marks: tuple[float, ...]) -> None:
    assert scale.ticks(most, unit=unit) == pytest.approx(marks)


def test_a_screen_keeps_what_was_said_and_goes_on_below_where_it_is_too_long() -> None:
    long = "  To do: " + "word " * 40
    shown = texts(terminal.svg([("headrace doctor", f"RISK  <a> & b\n{long}\n")]))

    assert shown[:2] == ["$ headrace doctor", "RISK  <a> & b"]
    assert escape("<a>") in terminal.svg([("headrace doctor", "<a>")])
    assert all(line.startswith("  ") and len(line) <= terminal.COLUMNS for line in shown[2:])
    assert " ".join(" ".join(shown[2:]).split()) == " ".join(long.split())

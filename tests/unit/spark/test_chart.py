"""The chart of the dead letters job, as far as a reader of it would notice."""

from __future__ import annotations

from xml.etree import ElementTree

from pyspark_jetstream.jobs.chart import COLOURS, stacked_bars

SVG = "{http://www.w3.org/2000/svg}"


def bars(svg: str) -> list[tuple[str, float]]:
    """Colours and heights of all bars, legend and background aside."""
    found = ElementTree.fromstring(svg).findall(f"{SVG}rect")
    return [(one.get("fill", ""), float(one.get("height", 0))) for one in found if "." in one.get("height", "")]


def words(svg: str) -> list[str]:
    return [one.text or "" for one in ElementTree.fromstring(svg).findall(f"{SVG}text")]


def test_bars_are_as_high_as_their_counts_and_stand_on_each_other():
    svg = stacked_bars("Parked", ["09h", "10h"], {"timeout": [4, 0], "refused": [1, 2]})
    first, second, third = bars(svg)
    assert [first[0], second[0], third[0]] == [COLOURS[0], COLOURS[1], COLOURS[1]]
    assert round(first[1] / second[1], 2) == 4
    assert round(third[1] / second[1], 2) == 2
    assert {"Parked", "09h", "10h", "timeout (4)", "refused (3)"} <= set(words(svg))


def test_more_kinds_than_colours_share_the_last_one():
    svg = stacked_bars("Parked", ["09h"], {f"kind {number}": [10 - number] for number in range(9)})
    assert len(bars(svg)) == len(COLOURS)
    assert f"4 others ({5 + 4 + 3 + 2})" in words(svg)


def test_nothing_parked_is_an_empty_chart_and_words_of_strangers_are_escaped():
    assert bars(stacked_bars("Parked", [], {})) == []
    assert "<b> & (1)" in words(stacked_bars('"<&>"', ["1"], {"<b> &": [1]}))

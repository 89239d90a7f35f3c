"""The parts of the Spark bench that could be wrong without anyone noticing: how samples become numbers."""

from __future__ import annotations

from typing import NoReturn
from xml.etree import ElementTree

from bench.spark import chart, report
from bench.spark.rows import Row, Sample, Target
from bench.spark.stage import Stage


def nothing(_stage: Stage) -> NoReturn:
    raise AssertionError("not called")


RAW = Row("raw", "the floor", nothing)
COUNT = Row("count", "ours", nothing, (Target(most_python_us=7.0), Target(least_ratio=0.6, to="raw")))
WRITE = Row("write", "ours", nothing, (Target(least_per_second=40_000),))


def sample(seconds: float, python: float) -> Sample:
    return Sample(1000, seconds, python, jvm_seconds=0.001)


def test_ratios_are_of_the_same_round_and_numbers_are_medians():
    samples = {
        "raw": [sample(1.0, 0.001), sample(2.0, 0.001), sample(10.0, 0.001)],
        "count": [sample(2.0, 0.005), sample(4.0, 0.006), sample(10.0, 0.009)],
    }
    _, count = report.results([RAW, COUNT], samples)
    assert (count.rows_per_second, count.python_us, count.jvm_us) == (250, 6.0, 1.0)
    assert count.ratios == {"raw": 0.5}
    assert count.missed == ("at least 0.6 x raw",)


def test_a_target_is_held_or_named():
    slow, fast = [sample(1.0, 0.008)], [sample(0.02, 0.008)]
    assert report.results([WRITE], {"write": slow})[0].missed == ("at least 40,000 rows/s",)
    assert report.results([WRITE], {"write": fast})[0].missed == ()
    found = report.results([RAW, COUNT], {"raw": slow, "count": fast})
    assert found[1].missed == ("Python at most 7 µs per row",)
    assert report.table(found).splitlines()[2].endswith("Python at most 7 µs per row")
    ElementTree.fromstring(chart.svg(found, {"cores": 2}))

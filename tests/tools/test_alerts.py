"""Alerting rules and dashboards, by Prometheus' own tool: rules fire when they should, and every query is taken."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from infra.generate.dashboards import ALL
from infra.programs import tool_binaries
from tests.support.programs.alerts import ALERTS, FOLDER, TESTS
from tests.support.programs.promql import with_durations


@pytest.fixture(scope="module")
def promtool() -> str:
    return str(tool_binaries.found(tool_binaries.PROMTOOL)["promtool"])


def test_prometheus_takes_the_rules(promtool: str) -> None:
    done = subprocess.run([promtool, "check", "rules", str(ALERTS)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_takes_every_query_of_the_dashboards(promtool: str, tmp_path: Path) -> None:
    queries = [query for board in ALL for panel in board.panels for query, _ in panel.queries]
    assert len(queries) > 50
    rules = [{"record": f"query_{place}", "expr": with_durations(query)} for place, query in enumerate(queries)]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboards", "rules": rules}]}), encoding="utf-8")
    # Some panels of two pages ask for the same: no fault here.
    command = [promtool, "check", "rules", "--lint=none", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(queries)} rules found" in done.stdout


def test_each_fires_when_it_should_and_at_no_other_time(promtool: str) -> None:
    command = [promtool, "test", "rules", str(TESTS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=FOLDER)
    assert done.returncode == 0, done.stdout + done.stderr

"""The alerting rules, by Prometheus' own tool: they fire when they should, in the words that they should."""

from __future__ import annotations

import subprocess

import pytest

from infra.programs import tool_binaries
from tests.support.programs.alerts import ALERTS, FOLDER, TESTS


@pytest.fixture(scope="module")
def promtool() -> str:
    return str(tool_binaries.found(tool_binaries.PROMTOOL)["promtool"])


def test_prometheus_takes_the_rules(promtool: str) -> None:
    done = subprocess.run([promtool, "check", "rules", str(ALERTS)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_fires_when_it_should_and_at_no_other_time(promtool: str) -> None:
    command = [promtool, "test", "rules", str(TESTS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=FOLDER)
    assert done.returncode == 0, done.stdout + done.stderr

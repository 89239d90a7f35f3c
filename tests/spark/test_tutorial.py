"""The tutorial that needs Spark does what it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.programs.tutorial import Walk, environment_of_a_reader


@pytest.mark.parametrize("name", ["spark-on-the-stream"])
def test_a_tutorial_does_what_it_shows(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = environment_of_a_reader(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("NATS_URL", raising=False)

    with Walk(name, tmp_path, environment) as walk:
        assert walk.steps
        walk.to_the_end()

"""Every tutorial does what it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.programs import tutorial
from tests.support.programs.tutorial import ROOT, TUTORIALS, Untrue, Walk, environment_of_a_reader

# Spark's own suite walks the others.
WALKED = ("first-channel", "failing-subscriber", "from-zero", "dead-letter-pile")
WALKED_WITH_SPARK = ("spark-on-the-stream",)


@pytest.mark.parametrize("name", WALKED)
def test_a_tutorial_does_what_it_shows(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = environment_of_a_reader(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    for variable in ("NATS_URL", "NATS_CREDS_FILE"):
        monkeypatch.delenv(variable, raising=False)

    with Walk(name, tmp_path, environment) as walk:
        assert walk.steps
        walk.to_the_end()
        assert [step for step, _ in walk.took] == walk.steps


def test_every_tutorial_is_short_is_walked_and_can_be_found_from_the_readme() -> None:
    files = sorted(TUTORIALS.glob("*.md"))
    readme = (ROOT / "README.md").read_text()

    assert {file.stem for file in files} == {*WALKED, *WALKED_WITH_SPARK}
    assert [file.name for file in files if len(file.read_text().splitlines()) > 80] == []
    assert [file.name for file in files if f"](docs/tutorials/{file.name})" not in readme] == []
    spark = (ROOT / "tests" / "spark" / "test_tutorial.py").read_text()
    assert [name for name in WALKED_WITH_SPARK if f'"{name}"' not in spark] == []


def test_manifests_that_a_tutorial_shows_are_those_that_it_runs() -> None:
    manifests = {file.read_text() for file in (ROOT / "examples" / "tutorials").rglob("*.yaml")}
    shown = [
        (document.name, fence)
        for document in TUTORIALS.glob("*.md")
        for fence in re.findall(r"^```yaml\n(.*?)^```$", document.read_text(), re.MULTILINE | re.DOTALL)
    ]
    assert [(name, fence) for name, fence in shown if not any(fence in manifest for manifest in manifests)] == []


@pytest.mark.parametrize(
    ("shown", "said", "same"),
    [
        pytest.param("sent 1\n", "sent 1\n", True, id="the same"),
        pytest.param("sent 1\n", "sent 2\n", False, id="another number"),
        pytest.param("sent 1\n", "sent 1\nsent 2\n", False, id="a line more"),
        pytest.param("...\nsent 1\n", "a\nb\nsent 1\n", True, id="any lines"),
        pytest.param("A  B\n1  46s\n", "A   B\n1    9s\n", True, id="columns and ages"),
        pytest.param("parked: 50s ago, 2026-11-28T12:12:31.269Z\n", "parked: 2s ago, 2027-01-02T00:00:00.1Z\n", True),
        pytest.param("run 535be010\n", "run 00000001\n", True, id="a name that is drawn"),
        pytest.param("run 535be010\n", "run away\n", False, id="no such name"),
    ],
)
def test_what_counts_as_the_same(shown: str, said: str, *, same: bool) -> None:
    assert bool(tutorial.pattern(shown).fullmatch(said)) is same


def test_a_walk_tells_of_a_command_that_says_something_else(tmp_path: Path) -> None:
    with Walk("first-channel", tmp_path, environment_of_a_reader(tmp_path)) as walk:
        walk.steps = tutorial.steps("So:\n\n```console\n$ echo here; false\nthere\n```\n")
        with pytest.raises(Untrue, match="said, with status 1:\nhere"):
            walk.to_the_end()

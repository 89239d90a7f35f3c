"""Fixtures of the tests of `headrace up`. A plugin: a test module takes it in with `pytest_plugins`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.laptop.laptop import Laptop, Run

# Whose `subscriber` these tests use, too.
pytest_plugins = ["tests.support.functions.served"]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Make laptops, each with a directory of its own unless told; whatever is left of them ends with the test."""
    made: list[Laptop] = []

    def run(*manifests: str, **more: object) -> Laptop:
        made.append(Laptop(tmp_path, *manifests, **more))  # type: ignore[arg-type]  # the options of Laptop, checked there
        return made[-1].start()

    yield run
    for laptop in made:
        laptop.__exit__(None, None, None)

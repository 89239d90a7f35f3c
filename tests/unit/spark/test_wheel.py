"""The wheel `pyspark-jetstream` holds the part of core that it uses: no less, and no more."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CORE = ROOT / "functions" / "headrace" / "core"


def imported_from_core(file: Path) -> Iterator[Path]:
    """The files of core that a file imports, wherever it does."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("headrace.core"):
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            for name in names:
                path = ROOT / "functions" / name.replace(".", "/")
                yield from (one for one in (path.with_suffix(".py"), path / "__init__.py") if one.is_file())


def needed() -> set[Path]:
    waiting = list((ROOT / "spark" / "pyspark_jetstream").rglob("*.py")) + list((ROOT / "spark").glob("jobs/*.py"))
    found: set[Path] = set()
    while waiting:
        for file in imported_from_core(waiting.pop()):
            if file not in found:
                found.add(file)
                waiting.append(file)
    return found


def test_the_wheel_holds_what_it_imports() -> None:
    project = tomllib.loads((ROOT / "spark" / "pyproject.toml").read_text(encoding="utf-8"))
    listed = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    held: set[Path] = set()
    for source, target in listed.items():
        path = (ROOT / "spark" / source).resolve()
        assert source == f"../functions/{target}"
        held.update(path.rglob("*.py") if path.is_dir() else [path])
    packages = {ROOT / "functions" / "headrace" / "__init__.py", CORE / "__init__.py"}
    assert held == needed() | packages


def test_wheel_and_bundle_have_one_version() -> None:
    versions = [
        tomllib.loads((ROOT / name).read_text(encoding="utf-8"))["project"]["version"]
        for name in ("pyproject.toml", "spark/pyproject.toml")
    ]
    assert versions[0] == versions[1]

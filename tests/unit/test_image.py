"""The image, as far as it can be told without building it: what is copied, who it runs as, and what is left out."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "Containerfile").read_text(encoding="utf-8")
INSTRUCTIONS = [line for line in re.sub(r"\\\n", " ", TEXT).splitlines() if line and not line.startswith("#")]


def test_what_it_copies_is_there() -> None:
    copied = [line.split()[1:-1] for line in INSTRUCTIONS if line.startswith("COPY") and "--from" not in line]
    assert sum(map(len, copied)) == 5
    assert [name for names in copied for name in names if not (ROOT / name).exists()] == []


def test_it_installs_extras_that_there_are_from_the_lock_file_alone() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    syncs = [line for line in INSTRUCTIONS if "uv sync" in line]
    assert len(syncs) == 2
    for line in syncs:
        assert "--frozen --no-dev" in line
        assert (
            {"operator", "tracing"} == set(re.findall(r"--extra (\S+)", line)) <= set(project["optional-dependencies"])
        )


def test_both_stages_have_the_base_that_a_digest_can_pin() -> None:
    bases = [line.split()[1] for line in INSTRUCTIONS if line.startswith("FROM")]
    assert bases == ["python:3.13-slim${DIGEST}"] * 2


def test_its_user_is_a_number_and_not_root() -> None:
    users = [line for line in INSTRUCTIONS if line.startswith("USER")]
    assert users == ["USER 65532:65532"]


def test_kn_func_leaves_out_all_that_the_image_has_no_use_for() -> None:
    lines = (ROOT / ".funcignore").read_text(encoding="utf-8").splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    # What s2i can't understand: it knows names at the root, and globs without folders.
    assert [one for one in patterns if "**" in one or one.startswith("!") or "/" in one[1:]] == []
    rooted = {one[1:] for one in patterns if one.startswith("/")}
    needed = {"functions", "operator", "pyproject.toml", "uv.lock", "README.md", "func.yaml", "LICENSE", "SECURITY.md"}
    tracked = {path.name for path in ROOT.iterdir() if path.name not in (".git", ".gitignore", ".func", ".funcignore")}
    kept = {name for name in tracked - rooted if not any(fnmatch(name, one) for one in patterns)}
    assert {"functions", "operator", "pyproject.toml", "README.md"} <= kept
    assert kept - needed - {"dist", "build"} == set()

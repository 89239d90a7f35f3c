"""The image, as far as it can be told without a build (tests/image has one): the files in it, and its user.

Values that another program reads are shown to that program, since only it knows what it takes.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest

from infra.image import build

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "Containerfile").read_text(encoding="utf-8")
INSTRUCTIONS = [line for line in re.sub(r"\\\n", " ", TEXT).splitlines() if line and not line.startswith("#")]
# What uv is told in the stage that builds.
SETTINGS = dict(
    pair.split("=", 1)
    for line in INSTRUCTIONS
    if line.startswith("ENV UV_")
    for pair in shlex.split(line)[1:]
    if "$" not in pair
)


def uv(*words: str | Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """uv as it is here, offline, told what the Containerfile tells it."""
    around = {name: value for name, value in os.environ.items() if not name.startswith("UV_")}
    environment = {**around, **SETTINGS, **settings}
    return subprocess.run(["uv", *words], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """Of one module."""
    place, about = tmp_path / "tiny-1-py3-none-any.whl", "tiny-1.dist-info"
    with zipfile.ZipFile(place, "w") as file:
        file.writestr("tiny.py", "x = 1\n")
        file.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1\n")
        file.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{about}/RECORD", "".join(f"{name},,\n" for name in file.namelist()))
    return place


def test_uv_takes_each_setting(wheel: Path, tmp_path: Path) -> None:
    assert {"UV_LINK_MODE", "UV_PYTHON_DOWNLOADS"} <= SETTINGS.keys()
    install = ("pip", "install", "--offline", "--no-index", "--no-deps", "--target", tmp_path / "there", wheel)
    done = uv(*install)
    assert done.returncode == 0, done.stderr
    for name in ("UV_LINK_MODE", "UV_PYTHON_DOWNLOADS", "UV_NO_CACHE"):
        assert uv(*install, **{name: "nonsense"}).returncode != 0, name


def test_python_compiles_as_it_is_told_and_what_it_compiles_is_never_compared_with_its_source(tmp_path: Path) -> None:
    commands = [part for line in INSTRUCTIONS for part in re.findall(r"python (-m compileall [^&]*)", line)]
    assert len(commands) == 2
    for number, command in enumerate(commands):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "tiny.py").write_text("x = 1\n")
        done = subprocess.run([sys.executable, *shlex.split(command)[:-1], folder], capture_output=True, text=True)
        assert (done.returncode, done.stdout + done.stderr) == (0, "")
        (compiled,) = folder.rglob("*.pyc")
        # PEP 552: the second word is 1 where the byte code has a hash that is not to be looked at.
        assert int.from_bytes(compiled.read_bytes()[4:8], "little") == 1


def test_uv_takes_each_of_its_commands(tmp_path: Path) -> None:
    (command,) = [part for line in INSTRUCTIONS for part in re.findall(r"uv sync [^&;]*", line)]
    done = uv(*shlex.split(command)[1:], "--dry-run", "--offline", UV_PROJECT_ENVIRONMENT=str(tmp_path / "venv"))
    assert done.returncode == 0, done.stderr


def test_what_it_copies_is_there_and_is_what_a_second_build_is_given() -> None:
    copied = [line.split()[1:-1] for line in INSTRUCTIONS if line.startswith("COPY") and "--from" not in line]
    names = [name for names in copied for name in names]
    assert [name for name in names if not (ROOT / name).exists()] == []
    assert {"Containerfile", *names} == set(build.COPIED)


def test_all_that_is_installed_is_known_by_a_hash() -> None:
    (tools,) = [part for line in INSTRUCTIONS for part in re.findall(r"pip install [^&;]*tools.txt", line)]
    assert "--require-hashes" in tools
    text = re.sub(r"\\\n *", "", (ROOT / "infra/image/tools.txt").read_text(encoding="ascii"))
    pinned = [line for line in text.splitlines() if not line.startswith("#")]
    assert [
        line for line in pinned if re.fullmatch(r"[\w-]+==[\w.]+( --hash=sha256:[0-9a-f]{64})+", line) is None
    ] == []
    assert {"uv", "hatchling"} <= {line.partition("==")[0] for line in pinned}
    # What uv installs without the lock file is the wheel that was built here.
    others = [part for line in INSTRUCTIONS for part in re.findall(r"(?:uv )?pip install [^&;]*", line)]
    assert [part.strip() for part in others if part != tools] == ["uv pip install --offline --no-deps /wheel/*.whl"]


def test_the_pinned_build_backend_is_one_that_the_project_takes() -> None:
    (wanted,) = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    found = re.search(r"^hatchling==(\d+)\.(\d+)", (ROOT / "infra/image/tools.txt").read_text(), re.MULTILINE)
    least = re.fullmatch(r"hatchling>=(\d+)\.(\d+)", wanted)
    assert found is not None
    assert least is not None
    assert tuple(map(int, found.groups())) >= tuple(map(int, least.groups()))


def test_it_installs_extras_that_there_are_from_the_lock_file_alone() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (line,) = [line for line in INSTRUCTIONS if "uv sync" in line]
    assert "--frozen --no-dev" in line
    assert {"operator", "tracing"} == set(re.findall(r"--extra (\S+)", line)) <= set(project["optional-dependencies"])


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

"""The cost of this suite's containers, as a table at its end; `--write` puts it into docs/image.md."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from infra import document_place
from infra.image import machine
from tests.support.nats.nats_server import NatsServer
from tests.support.programs.built_image import Built, Pods, built
from tests.support.programs.containers import Container

PAGE = Path(__file__).resolve().parents[2] / "docs" / "image.md"
_rows: list[str] = []


class Figures:
    """Rows of the table, in the order of the tests."""

    def add(self, what: str, limit: int | None, container: Container) -> None:
        """Args:
        limit: MiB.
        """
        own, most = container.memory()
        _rows.append(f"| {what} | {limit or '-'} MiB | {container.seconds:.2f} s | {own:.0f} MiB | {most:.0f} MiB |")


@pytest.fixture(scope="session")
def built_image() -> Iterator[Built]:
    if reason := machine.why_not():
        pytest.fail(f"the image can't be started here: {reason}")
    with built() as found:
        yield found


@pytest.fixture
def image_nats(tmp_path: Path) -> Iterator[NatsServer]:
    server = NatsServer(tmp_path / "nats").start()
    yield server
    server.kill()


@pytest.fixture
def pods(built_image: Built, image_nats: NatsServer, tmp_path: Path) -> Pods:
    return Pods(built_image.image, tmp_path, image_nats.url)


@pytest.fixture
def figures() -> Figures:
    return Figures()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write", action="store_true", help="put the figures into docs/image.md")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The first of them builds, where nothing has been built before.
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(900))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in (table := list(_table())):
        terminalreporter.write_line(line)
    if table and config.getoption("--write"):
        page = document_place.filled(PAGE.read_text(encoding="utf-8"), "figures", "\n".join(table))
        PAGE.write_text(page, encoding="utf-8")


def _table() -> Iterator[str]:
    if not _rows:
        return
    runc = subprocess.run(["runc", "--version"], capture_output=True, text=True, check=True).stdout.split()[2]
    linux, kind = platform.release().partition("-")[0], "v1" if Path("/sys/fs/cgroup/memory").is_dir() else "v2"
    busy = f"{os.cpu_count()} cores at a load of {os.getloadavg()[0]:.0f}"
    yield f"{datetime.now(UTC):%Y-%m-%d}, runc {runc}, Linux {linux}, cgroups {kind}, {busy}:"
    yield ""
    yield "| what | limit | program's start until ready | memory of its own | most it had, files included |"
    yield "|---|---|---|---|---|"
    yield from _rows

"""`kn` finds the plugin, and hands its words and its output on; of its exit status only whether it is 0."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.core.nats.stream import Owner, Role
from infra.programs import tool_binaries
from tests.support.kube.install import ROOT
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Channel, Nats

Kn = Callable[..., subprocess.CompletedProcess[str]]
ORDERS = Channel("shop", "orders")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    found = NatsServer(tmp_path / "nats").start()
    yield found
    found.kill()


@pytest.fixture
def kn(tmp_path: Path, server: NatsServer) -> Kn:
    """The real kn with our kn-jetstream on its PATH, and nothing else of ours."""
    program = tool_binaries.found(tool_binaries.KN)["kn"]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kn-jetstream").symlink_to(Path(sys.executable).with_name("kn-jetstream"))
    environment = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "HOME": str(tmp_path), "NATS_URL": server.url}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([program, *words], env=environment, capture_output=True, text=True, timeout=60)

    return run


@pytest.fixture
def plugin(server: NatsServer) -> Kn:
    """The plugin without kn."""
    program = Path(sys.executable).with_name("kn-jetstream")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "NATS_URL": server.url}
        return subprocess.run([program, *words], env=environment, capture_output=True, text=True, timeout=60)

    return run


def test_kn_lists_the_plugin(kn: Kn) -> None:
    assert re.search(r"^- kn-jetstream : ", kn("plugin", "list").stdout, re.MULTILINE)


async def test_what_the_page_begins_with_runs_by_kn(kn: Kn, server: NatsServer) -> None:
    async with Nats(server.url) as nats:
        mark = Owner("default", "shop", "orders", "uid-1").mark(Role.CHANNEL)
        await nats.make_channel(ORDERS, metadata=mark)
    page = (ROOT / "docs" / "kn-plugin.md").read_text(encoding="utf-8").split("```")[1]
    commands = re.findall(r"^kn (.+)$", page, re.MULTILINE)
    assert commands == ["jetstream channel list -A", "jetstream doctor -A"]
    listed, doctor = [kn(*command.split()) for command in commands]
    assert (listed.returncode, "orders" in listed.stdout) == (0, True), listed.stderr
    # Nobody serves the channel here, which doctor finds.
    assert (doctor.returncode, "shop/orders" in doctor.stdout) == (1, True), doctor.stdout + doctor.stderr


@pytest.mark.parametrize(
    ("words", "alone"), [("channel describe shop/nowhere", 1), ("channel --nonsense", 2), ("check", 3)]
)
def test_by_kn_every_failure_is_a_1(kn: Kn, plugin: Kn, words: str, alone: int) -> None:
    assert plugin(*words.split()).returncode == alone
    assert kn("jetstream", *words.split()).returncode == 1

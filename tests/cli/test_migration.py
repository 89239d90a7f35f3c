"""The commands of docs/migration.md, block by block, as somebody would type them.

There is no cluster: `kubectl` writes down its arguments, and between the blocks the tests do the operator's part.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import nats
import pytest
import yaml

from headrace.core.channel.child_marks import standard_labels
from headrace.core.channel.children.services import CHANNEL_ROLE
from headrace.core.channel.peer import ADVICE
from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.nats.client import Client
from headrace_operator.channels.channel_object import FINALIZER
from tests.support.functions.channels import channel, entry, stream
from tests.support.functions.handing_back import marks
from tests.support.functions.reconciling import Hook
from tests.support.nats.go_channel import OURS, PUSH, STREAM, THEIRS, GoChannel
from tests.support.nats.nats_server import NatsServer

DOCS = Path(__file__).parents[2] / "docs"
SECTIONS = {
    part.partition("\n")[0].strip(): re.findall(r"^ *```\n(.*?)^ *```$", part, re.MULTILINE | re.DOTALL)
    for part in (DOCS / "migration.md").read_text().split("\n## ")[1:]
}
WALKED = {
    "From the Go NatsJetStreamChannel, in place": 2,
    "Back to the Go NatsJetStreamChannel": 3,
    "From channels on core NATS, NATS Streaming, memory or Kafka": 1,
    "From Kyma Eventing": 1,
    "From Argo Events": 1,
}
# As a shell would find them; `kubectl get -o yaml` of what there is to convert gives the example.
TOOLS = """
set -euo pipefail
headrace() { "$PYTHON" -m headrace_cli "$@"; }
kn() { [ "$1" = jetstream ] && shift && headrace "$@"; }
kubectl() { echo "kubectl $*" >> kubectl.log; case "$*" in *"-o yaml"*) cat example.yaml;; esac; }
"""


class Shell:
    """Runs blocks of the page in a directory."""

    def __init__(self, directory: Path, url: str = "nats://127.0.0.1:1") -> None:
        self.directory = directory
        surrounding = {name: value for name, value in os.environ.items() if not name.startswith(("NATS_", "HEADRACE_"))}
        self._environment = {**surrounding, "PYTHON": sys.executable, "NATS_URL": url}

    async def run(self, section: str, block: int) -> subprocess.CompletedProcess[str]:
        """One block; it must succeed."""
        return await asyncio.to_thread(self._run, SECTIONS[section][block])

    @property
    def told(self) -> list[str]:
        """What kubectl was told."""
        return (self.directory / "kubectl.log").read_text().splitlines()

    def _run(self, block: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            ["bash", "-c", TOOLS + block],
            cwd=self.directory,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done
        return done


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[NatsServer]:
    """A server that no other test's channels are on: `-A` takes all."""
    server = NatsServer(tmp_path / "nats")
    server.start()
    yield server
    server.kill()


@pytest.fixture
async def hook(own_server: NatsServer) -> AsyncIterator[Hook]:
    connection = Client(NatsSettings(url=own_server.url))
    yield Hook(connection)
    await connection.close()


def test_the_finalizer_that_is_to_be_taken_out_is_ours() -> None:
    assert f"`{FINALIZER}`" in (DOCS / "migration.md").read_text()


def test_every_block_of_the_page_is_walked() -> None:
    assert {name: len(blocks) for name, blocks in SECTIONS.items() if blocks} == WALKED


@pytest.mark.parametrize("section", [name for name in SECTIONS if "Go Nats" in name])
def test_what_kubectl_is_told_names_what_there_is(section: str) -> None:
    commands = [line for block in SECTIONS[section] for line in block.splitlines() if "kubectl" in line]
    assert commands
    labels = {f"{k}={v}" for one in ("forward", "receive") for k, v in (standard_labels(one) | CHANNEL_ROLE).items()}
    for command in commands:
        for deployment in re.findall(r"scale deploy ([^-].*?) --", command):
            assert all(name in ADVICE or name == "headrace-operator" for name in deployment.split())
        for selector in re.findall(r"-l (\S+)", command):
            assert set(selector.split(",")) <= labels


async def test_to_headrace_and_back(hook: Hook, own_server: NatsServer, tmp_path: Path) -> None:
    there, back = list(WALKED)[:2]
    shell = Shell(tmp_path, own_server.url)
    parent = channel(entry("aaaa-1"), stream=stream(retention="Interest"))
    stranger = await nats.connect(own_server.url)
    try:
        peer = GoChannel(hook, stranger)
        await peer.make("interest", **PUSH)
        await peer.publish(3)

        await shell.run(there, 0)
        await hook.sync(parent)
        looked = await shell.run(there, 1)

        assert await hook.durables(STREAM) == [OURS]
        assert "shop/billing" in looked.stdout or "all is well" in looked.stdout
        assert shell.told == [
            "kubectl -n knative-eventing scale deploy jetstream-ch-controller jetstream-ch-dispatcher --replicas=0",
            "kubectl -n knative-eventing scale deploy headrace-operator --replicas=1",
            "kubectl get natsjsmc -A",
        ]

        await shell.run(back, 0)
        handed = await shell.run(back, 1)
        await shell.run(back, 2)

        assert "Nothing was changed." in handed.stderr
        assert handed.stdout == "shop/orders is handed back, with 1 Subscription\n"
        assert (await hook.durables(STREAM), await marks(hook)) == ([THEIRS], [])
        assert len(shell.told) == 11
    finally:
        await stranger.close()


@pytest.mark.parametrize(
    ("section", "given", "example", "kinds"),
    [
        (list(WALKED)[2], "old.yaml", "in-memory.yaml", ["NatsJetStreamChannel", "Subscription"]),
        (list(WALKED)[3], "kyma.yaml", "kyma.yaml", ["ConfigMap", "Broker", "Trigger"]),
        (list(WALKED)[4], "example.yaml", "argo.yaml", ["ConfigMap", "Broker", "Trigger"]),
    ],
)
async def test_manifests_are_converted(
    section: str, given: str, example: str, kinds: list[str], tmp_path: Path
) -> None:
    shutil.copy(DOCS / "convert" / example, tmp_path / given)

    await Shell(tmp_path).run(section, 0)

    made = list(yaml.safe_load_all((tmp_path / "new.yaml").read_text()))
    assert [body["kind"] for body in made] == kinds

"""The commands of docs/install.md, word for word, in a shell with the real tools and a copy of `infra`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from infra.programs import tool_binaries
from tests.support.kube.install import INFRA, Block, blocks

# What is done to channels before all the rest goes.
CHANNEL = "channel"


class Shell:
    """Commands in a copy of `infra`, with kubectl and the tools that were built on its PATH."""

    def __init__(
        self,
        directory: Path,
        kubeconfig: Path,
        image: str = "registry.example/headrace@sha256:" + "0" * 64,
        kubectl: Path | None = None,
    ) -> None:
        """Args:
        directory: the copy goes there.
        image: what `$IMAGE` is in the commands.
        kubectl: the program; the one on PATH unless given.
        """
        program = kubectl or shutil.which("kubectl")
        assert program, "there is no kubectl: install it, or leave this file out"
        self.directory = directory
        tools = directory / "bin"
        tools.mkdir()
        found = tool_binaries.found(tool_binaries.HELM, tool_binaries.KUSTOMIZE)
        for name, place in {**found, "kubectl": program}.items():
            (tools / name).symlink_to(place)
        shutil.copytree(INFRA, directory / "infra")
        self._environment = {
            **os.environ,
            # Ours is beside the Python that runs this.
            "PATH": f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "KUBECONFIG": str(kubeconfig),
            "IMAGE": image,
            "HOME": str(directory),
        }

    def write(self, name: str, text: str) -> None:
        path = self.directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def __call__(self, text: str, seconds: float = 180.0) -> str:
        """What the commands write; their own words when one fails."""
        command = ["bash", "-euo", "pipefail", "-c", text]
        done = subprocess.run(
            command, cwd=self.directory, env=self._environment, capture_output=True, text=True, timeout=seconds
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
        return done.stdout


def of(section: str) -> list[Block]:
    """The blocks of a section."""
    return [block for block in blocks() if block.section == section]


def run_section(shell: Shell, section: str) -> None:
    """Its files are written and its commands are run, in order."""
    for block in of(section):
        if block.kind == "yaml":
            shell.write(block.about, block.text)
        elif block.about == "run":
            shell(block.text)


def channel_commands() -> list[str]:
    """What is done to channels before all the rest goes, one command each."""
    (block,) = [block for block in blocks() if block.about == CHANNEL]
    return block.text.splitlines()

"""What the command line says in the middle of a run: commands as a person types them, each a process of its own."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.support.nats.nats_server import NatsServer

SECONDS = 60.0
# By the moment at which they are typed; what stands together is on one picture.
MOMENTS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "while ledger is slow": {
        "channels": ("headrace channel list -A", "headrace subscription list -A"),
        "report": ("headrace report -A",),
        "doctor": ("headrace doctor -A",),
        "tail": ("headrace tail shop/orders --last 2 --count 3",),
    },
    "before the replay": {"dead-letters": ("headrace deadletter list shop/orders --limit 6",)},
    "the replay": {"dead-letters": ("headrace deadletter replay shop/orders --all", "headrace deadletter list -A")},
}
NAMES = tuple(dict.fromkeys(name for moment in MOMENTS.values() for name in moment))


@dataclass
class Screens:
    """What was typed and said, by picture."""

    nats: NatsServer
    said: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    async def take(self, moment: str) -> None:
        """Run the commands of one moment, one after the other.

        Raises:
            AssertionError: one of them said nothing.
        """
        for name, commands in MOMENTS[moment].items():
            for command in commands:
                text = await self._run(command)
                assert text, f"{command} said nothing"
                self.said.setdefault(name, []).append((command, text))

    async def _run(self, command: str) -> str:
        words = shlex.split(command)[1:]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("NATS_", "HEADRACE_"))}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "headrace_cli",
            *words,
            env={**kept, "NATS_URL": self.nats.url},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(SECONDS):
                out, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return out.decode()

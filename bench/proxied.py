"""The Go proxy that some rows put in front of what they measure: built once per machine from `bench/proxy`."""

from __future__ import annotations

import subprocess
from pathlib import Path

from bench.processes import ROOT, program
from infra.cache import say
from infra.programs import go_programs
from tests.support.nats.nats_server import free_port
from tests.support.programs.process import Running

PROXY = go_programs.Program("proxy", ROOT / "bench" / "proxy", "", ".", cache="bench", says_version=())


def built() -> Path | None:
    """The program; None where there is no Go to build it with."""
    try:
        go_programs.prepare([PROXY])
    except (go_programs.Missing, subprocess.CalledProcessError, OSError) as problem:
        say(f"no row is measured behind a proxy: {problem}")
        return None
    return PROXY.built


def in_front_of(server: Running, proxy: Path, directory: Path) -> Running:
    """A proxy of its own for this server."""
    port = free_port()
    command = [str(proxy), "-listen", f"127.0.0.1:{port}", "-to", server.url]
    return program(f"proxy-of-{server.name}", command, port, directory)

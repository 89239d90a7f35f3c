"""The processes that are measured: how each is started, and what it costs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from tests.support.nats.nats_server import free_port
from tests.support.programs.process import Running

ROOT = Path(__file__).resolve().parents[1]


def module(name: str, directory: Path, *more: str) -> Running:
    """A module of the bench that takes `--port`, and these arguments."""
    port = free_port()
    return program(name, [sys.executable, "-m", name, "--port", str(port), *more], port, directory)


def program(name: str, command: Sequence[str], port: int, directory: Path) -> Running:
    """Whatever serves on this port."""
    return Running(name, command, port, directory, {"PYTHONPATH": str(ROOT)}).wait_until_open()


def function(target: str, directory: Path, environment: Mapping[str, str]) -> Running:
    """A function as `python -m headrace.host` serves it, in one process: what is measured is per worker."""
    return starting(target, directory, environment).wait_until_ready()


def starting(target: str, directory: Path, environment: Mapping[str, str]) -> Running:
    """The same, just begun."""
    port = free_port()
    own = {"FUNCTION_TARGET": target, "HOST": "127.0.0.1", "PORT": str(port), **environment}
    return Running(target, [sys.executable, "-m", "headrace.host"], port, directory, own)


def cpu_seconds(pid: int) -> float:
    """CPU of a process, user and system, since its start; the kernel counts in steps of 10 ms."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def peak_rss(pid: int) -> int:
    """The most memory that a process has held, in bytes; what it holds now where the kernel keeps no peak."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return int(psutil.Process(pid).memory_info().rss)
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))

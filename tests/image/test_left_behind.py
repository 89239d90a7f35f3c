"""A program that builds or starts containers may be killed at any moment: it leaves no process, mount or cgroup."""

from __future__ import annotations

import multiprocessing
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import psutil

from infra.image.store import FOLDER
from tests.support.kube.install import ROOT
from tests.support.programs.built_image import RECONCILE, Built, Pods, installed, pod_of
from tests.support.programs.containers import Container


def wait(what: str, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, f"it is still not so that {what}"
        time.sleep(0.05)


def ended(processes: list[psutil.Process]) -> bool:
    return not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in processes)


def cgroups(name: str) -> list[Path]:
    folder = Path("/sys/fs/cgroup")
    return [*folder.glob(name), *folder.glob(f"*/{name}")]


def _hold(container: Container, told: Connection) -> None:
    with container:
        container.until(f"{container.url}/health/liveness")
        told.send("it serves")
        signal.pause()


def test_a_container_goes_with_whoever_started_it(pods: Pods) -> None:
    container = pods.container(pod_of(installed(RECONCILE["knative"])))
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    holder = context.Process(target=_hold, args=(container, there))
    holder.start()
    # If it fails to start, there is an end in place of a word.
    there.close()
    assert here.recv() == "it serves"
    processes = psutil.Process(holder.pid).children(recursive=True)
    assert "python" in {one.name() for one in processes}
    assert cgroups(container.name) != []
    holder.kill()
    holder.join()
    wait("its processes are gone", lambda: ended(processes))
    wait("its cgroups are gone", lambda: cgroups(container.name) == [])


def test_a_build_that_is_killed_leaves_no_process_and_no_mount_and_the_next_is_not_troubled(built_image: Built) -> None:
    command = [sys.executable, "-m", "infra.image", "build", "--fresh", "--name", "localhost/killed:1"]
    build = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert build.stderr is not None
    # It has a container, and runs a command in it.
    assert any("Collecting uv" in line for line in build.stderr)
    processes = psutil.Process(build.pid).children(recursive=True)
    assert "buildah" in {one.name() for one in processes}
    build.kill()
    build.communicate()
    wait("its processes are gone", lambda: ended(processes))
    assert str(FOLDER) not in Path("/proc/self/mountinfo").read_text()
    again = subprocess.run(
        [sys.executable, "-m", "infra.image", "base"], cwd=ROOT, capture_output=True, text=True, timeout=200
    )
    assert (again.returncode, again.stdout.strip()) == (0, "localhost/python:3.13-slim"), again.stderr

"""The promises of `task cluster`: up in two minutes, and down without a trace, whichever program was killed.

The tests have a cluster of their own, beside any other that runs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from os.path import basename
from pathlib import Path

import pytest

from infra.cluster import cgroups, instance, life
from infra.cluster.commands import kubectl
from infra.cluster.instance import Cluster
from infra.cluster.names import PAUSE
from tests.support.cluster import traces
from tests.support.cluster.traces import Traces
from tests.support.programs.repository import ROOT

NAME = "nothing"
# Promised are two minutes; this machine may be busy with other tests.
UP_SECONDS = 400
STAGES = ("before its node", "1 images are loaded", "control plane and node serve")


@pytest.fixture
def before() -> Iterator[Traces]:
    """What there was of it before the test; whatever the test leaves goes in the end."""
    run("down")
    yield traces.seen(NAME)
    run("down")


@pytest.mark.short
def test_a_cluster_comes_up_works_and_goes_without_a_trace(before: Traces, capsys: pytest.CaptureFixture[str]) -> None:
    began = time.monotonic()
    run("up")
    took = time.monotonic() - began
    cluster = saved()

    again = run("up")
    status = run("status")
    during = traces.seen(NAME)
    began = time.monotonic()
    run("down")
    down_took = time.monotonic() - began

    with capsys.disabled():
        print(f"\nup in {took:.0f} s, down in {down_took:.0f} s")
    assert took < UP_SECONDS
    assert "is up already" in again
    assert f"{NAME}: up on {cluster.addresses.network}" in status
    assert "Kubernetes v1.36.3" in status
    # It is there to be seen, or the last line would say nothing.
    assert during.beyond(before).keys() == {"processes", "interfaces", "routes", "groups", "files"}
    assert traces.seen(NAME).beyond(before) == {}
    assert "0 processes were ended" in run("down")


@pytest.mark.parametrize("stage", STAGES)
def test_up_that_was_killed_leaves_nothing_that_down_does_not_end(before: Traces, stage: str) -> None:
    kill_up_at(stage)

    run("down")

    assert traces.seen(NAME).beyond(before) == {}


def test_up_begins_anew_after_its_own_sudden_death(before: Traces) -> None:
    kill_up_at(STAGES[1])

    run("up", "--bare")

    assert life.is_up(saved())


@pytest.mark.parametrize(
    "victim",
    [
        *("containerd", "kubelet", "etcd", "unshare", "infra.cluster.node"),
        pytest.param("everything", marks=pytest.mark.short),
    ],
)
def test_a_cluster_whose_part_was_killed_leaves_nothing_that_down_does_not_end(before: Traces, victim: str) -> None:
    up_with_a_pod()

    kill(victim)
    run("down")

    assert traces.seen(NAME).beyond(before) == {}


@pytest.mark.parametrize("victim", ["containerd", "unshare"])
def test_up_starts_a_cluster_anew_whose_part_was_killed(before: Traces, victim: str) -> None:
    up_with_a_pod()
    old = cgroups.node_processes(NAME)

    kill(victim)
    # Also before anybody has noticed.
    cluster = saved()
    until("it is up, or is seen not to be", lambda: victim == "containerd" or not life.is_up(cluster))
    run("up", "--bare")

    assert life.is_up(saved())
    assert victim == "containerd" or not old & cgroups.node_processes(NAME)


def test_a_daemon_that_was_killed_is_started_again_and_pods_go_on(before: Traces) -> None:
    up_with_a_pod()
    pods = processes_of_pods()

    for victim in ("containerd", "kube-proxy", "kubelet", "kube-apiserver"):
        (old,) = processes(victim)
        os.kill(old, signal.SIGKILL)
        until(f"{victim} runs again", lambda old=old, victim=victim: bool(processes(victim) - {old}))
    cluster = saved()
    until("the cluster answers", lambda: life.is_up(cluster))

    assert processes_of_pods() == pods
    assert "starting it again" in (saved().logs / "node.log").read_text()


def test_a_network_that_is_taken_is_refused_before_anything_starts(before: Traces) -> None:
    run("up", "--bare")
    network = str(saved().addresses.network)

    refused = subprocess.run(
        command("up", "--name", "second", "--network", network), cwd=ROOT, capture_output=True, text=True
    )

    assert refused.returncode == 1
    assert f"--network {network} overlaps with" in refused.stderr
    assert traces.seen("second").processes == frozenset()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--name", "Not-a-name"), "at most 12 lower-case letters"),
        (("--name", "thirteen-long"), "at most 12 lower-case letters"),
        (("--network", "10.97.0.0/24"), "65,536 addresses"),
        (("--network", "here"), "write it as 10.97.0.0/16"),
    ],
)
def test_words_that_can_not_be_are_refused_with_what_to_write(words: tuple[str, ...], says: str) -> None:
    refused = subprocess.run(
        [sys.executable, "-m", "infra.cluster", "up", "--name", NAME, *words], cwd=ROOT, capture_output=True, text=True
    )

    assert refused.returncode == 1
    assert says in refused.stderr


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "infra.cluster", *words]


def run(verb: str, *words: str) -> str:
    """What the verb says for the cluster of these tests."""
    whole = command(verb, "--name", NAME, *words)
    done = subprocess.run(whole, cwd=ROOT, capture_output=True, text=True, timeout=UP_SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def up_with_a_pod() -> None:
    """Up, bare, and with a pod that runs: a sandbox, mounts, a namespace, rules for a Service."""
    run("up", "--bare")
    kubectl(saved(), "run", "pod", f"--image={PAUSE}", "--port=80", "--expose")
    kubectl(saved(), "wait", "--for=condition=Ready", "pod/pod", "--timeout=120s")


def kill_up_at(stage: str) -> None:
    """Start it, and kill the command, and nothing else, when it has come so far."""
    whole = command("up", "--name", NAME, "--bare")
    started = subprocess.Popen(whole, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert started.stderr is not None
    try:
        if stage == STAGES[0]:
            until("it begins", lambda: bool(cgroups.processes(NAME)))
        else:
            assert any(stage in line for line in started.stderr), f"up ended without {stage}"
    finally:
        started.kill()
        started.wait()
        started.stderr.close()


def kill(victim: str) -> None:
    victims = cgroups.processes(NAME) if victim == "everything" else processes(victim)
    assert victims
    for pid in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def processes(name: str) -> set[int]:
    """The node's processes of that program, or of that Python module."""
    return {pid for pid in cgroups.node_processes(NAME) if name in map(basename, words_of(pid)[:3])}


def processes_of_pods() -> set[int]:
    return cgroups.processes(NAME) - cgroups.node_processes(NAME)


def words_of(pid: int) -> list[str]:
    """Its command line; nothing of one that has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return []


def saved() -> Cluster:
    found = instance.saved(NAME)
    assert found is not None
    return found


def until(what: str, arrived: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not arrived():
        assert time.monotonic() < deadline, f"not so after {seconds:.0f} s: {what}"
        time.sleep(0.1)

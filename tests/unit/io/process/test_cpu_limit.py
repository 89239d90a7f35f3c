"""How many CPUs a container gives, as the kernel's files say it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.io.process.cpu_limit import cpus

QUOTA, PERIOD = "cpu.cfs_quota_us", "cpu.cfs_period_us"


@pytest.fixture(autouse=True)
def eight_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)


def machine(root: Path, groups: str, files: dict[str, str]) -> Path:
    for name, text in {"proc/self/cgroup": groups, **files}.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="ascii")
    return root


@pytest.mark.parametrize(
    ("groups", "files", "found"),
    [
        pytest.param("0::/\n", {"sys/fs/cgroup/cpu.max": "200000 100000\n"}, 2, id="a limit of 2"),
        pytest.param("0::/\n", {"sys/fs/cgroup/cpu.max": "150000 100000\n"}, 2, id="1.5 is rounded up"),
        pytest.param("0::/\n", {"sys/fs/cgroup/cpu.max": "10000 100000\n"}, 1, id="a tenth is still one"),
        pytest.param("0::/\n", {"sys/fs/cgroup/cpu.max": "max 100000\n"}, 4, id="no limit"),
        pytest.param("0::/\n", {"sys/fs/cgroup/cpu.max": "6400000 100000\n"}, 8, id="more than there are"),
        pytest.param("0::/\n", {}, 4, id="no such file"),
        pytest.param(
            "0::/pods/one\n",
            {"sys/fs/cgroup/pods/one/cpu.max": "max 100000", "sys/fs/cgroup/pods/cpu.max": "300000 100000"},
            3,
            id="the limit of a group around ours",
        ),
        pytest.param(
            "4:cpu,cpuacct:/docker/1f\n3:memory:/\n",
            {f"sys/fs/cgroup/cpu/{QUOTA}": "400000\n", f"sys/fs/cgroup/cpu/{PERIOD}": "100000\n"},
            4,
            id="version 1, seen from inside a container",
        ),
        pytest.param(
            "4:cpu:/\n",
            {f"sys/fs/cgroup/cpu/{QUOTA}": "-1\n", f"sys/fs/cgroup/cpu/{PERIOD}": "100000\n"},
            4,
            id="version 1 without a limit",
        ),
        pytest.param("nonsense\n\n", {"sys/fs/cgroup/cpu.max": "none at all"}, 4, id="what we do not understand"),
    ],
)
def test_the_limit_counts_where_there_is_one(tmp_path: Path, groups: str, files: dict[str, str], found: int) -> None:
    assert cpus(machine(tmp_path, groups, files)) == found


def test_without_such_a_kernel_all_cpus_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert cpus(tmp_path) == 3

"""Commands that a cluster is made with. Each is a member of the cluster's cgroups, so that `down` ends it, too, when
whoever started it was killed."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from infra.cluster import cgroups, programs
from infra.cluster.instance import Cluster, Problem


def run(cluster: Cluster, command: Sequence[str | Path], *, given: str | None = None) -> str:
    """Run it to its end, and return what it writes.

    Raises:
        Problem: it failed; says which command, and how its words end.
    """
    join = cgroups.joining(cluster.name)
    done = subprocess.run(command, input=given, capture_output=True, text=True, preexec_fn=join)
    if done.returncode != 0:
        words = shlex.join(map(str, command))
        raise Problem(f"`{words[:300]}` ended with {done.returncode}: {(done.stderr or done.stdout)[-2000:].strip()}")
    return done.stdout


def kubectl(cluster: Cluster, *words: str, given: str | None = None) -> str:
    """As the cluster's admin.

    Raises:
        Problem: it failed.
    """
    program = programs.found((programs.KUBECTL,))["kubectl"]
    return run(cluster, [program, f"--kubeconfig={cluster.kubeconfig}", *words], given=given)

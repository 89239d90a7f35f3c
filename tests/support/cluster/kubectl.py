"""kubectl on a cluster, as an operator types it, and its answers as values."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Body = dict[str, Any]
SYSTEM = "knative-eventing"


class Refused(Exception):
    """kubectl ended with an error; says its words."""


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod.

    Attributes:
        containers: ids of the runtime, by the containers' names; only of those that were started.
        leaving: is it being deleted?
    """

    namespace: str
    name: str
    node: str
    phase: str
    ready: bool
    leaving: bool
    annotations: dict[str, str]
    containers: dict[str, str]


class Kubectl:
    """Calls block: a test with a load beside it runs them in a thread."""

    def __init__(self, kubeconfig: Path, program: Path | str = "kubectl") -> None:
        self.kubeconfig = kubeconfig
        self._program = program

    def __call__(self, *words: str, given: str = "", seconds: float = 120.0) -> str:
        """Run `kubectl <words>` and answer what it printed.

        Args:
            given: its standard input, for `-f -`.

        Raises:
            Refused: it ended with an error.
        """
        done = subprocess.run(
            self.command(*words), input=given, capture_output=True, text=True, timeout=seconds, check=False
        )
        if done.returncode != 0:
            raise Refused(f"`kubectl {' '.join(words)}`: {done.stderr.strip()}")
        return done.stdout

    def command(self, *words: str) -> list[str | Path]:
        """As a process is started with."""
        return [self._program, f"--kubeconfig={self.kubeconfig}", *words]

    def apply(self, text: str) -> None:
        """Server-side apply of a YAML text."""
        self("apply", "--server-side", "--force-conflicts", "-f", "-", given=text)

    def merge(self, kind: str, name: str, patch: Body, namespace: str = SYSTEM) -> None:
        """A merge patch."""
        self("patch", kind, name, "-n", namespace, "--type=merge", "-p", json.dumps(patch))

    def get(self, kind: str, name: str, namespace: str = SYSTEM) -> Body:
        found: Body = json.loads(self("get", kind, name, "-n", namespace, "-o", "json"))
        return found

    def objects(self, kind: str, namespace: str = SYSTEM, selector: str = "") -> list[Body]:
        """The objects of a kind; `namespace` may be empty, for all of them."""
        where = ["-n", namespace] if namespace else ["--all-namespaces"]
        chosen = [f"--selector={selector}"] if selector else []
        items: list[Body] = json.loads(self("get", kind, *where, *chosen, "-o", "json"))["items"]
        return items

    def pods(self, selector: str, namespace: str = SYSTEM) -> list[Pod]:
        """Those that are not being deleted."""
        return [pod for pod in map(_pod, self.objects("pods", namespace, selector)) if not pod.leaving]

    def delete_pods(self, pods: list[Pod], *, force: bool = False) -> None:
        """Order it, and wait for nothing."""
        how = ["--force", "--grace-period=0"] if force else []
        for pod in pods:
            self("delete", "pod", pod.name, "-n", pod.namespace, "--wait=false", "--ignore-not-found", *how)

    def condition(self, kind: str, name: str, namespace: str, which: str = "Ready") -> tuple[str, str]:
        """Status and reason of a condition; empty texts when there is none."""
        body = self.get(kind, name, namespace)
        for one in body.get("status", {}).get("conditions", []):
            if one["type"] == which:
                return one["status"], one.get("reason", "")
        return "", ""

    def wait_ready(self, kind: str, name: str, namespace: str, seconds: float = 120.0) -> float:
        """Wait until the condition Ready is True; how many seconds that took."""
        return until(
            f"{kind} {namespace}/{name} is Ready",
            lambda: self.condition(kind, name, namespace)[0] == "True",
            seconds,
        )


def until(what: str, holds: Callable[[], bool], seconds: float = 60.0, pause: float = 0.2) -> float:
    """Wait until it holds; how many seconds that took. Fails the test, in these words, when it never does."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < seconds, f"after {seconds:g} s it is still not so that {what}"
        time.sleep(pause)
    return time.monotonic() - began


def _pod(body: Body) -> Pod:
    status, metadata = body.get("status", {}), body["metadata"]
    running = [
        one for one in status.get("containerStatuses", []) if one.get("containerID") and "running" in one["state"]
    ]
    return Pod(
        namespace=metadata["namespace"],
        name=metadata["name"],
        node=body["spec"].get("nodeName", ""),
        phase=status.get("phase", ""),
        ready=any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions", [])),
        leaving="deletionTimestamp" in metadata,
        annotations=metadata.get("annotations", {}),
        containers={one["name"]: one["containerID"].rpartition("//")[2] for one in running},
    )

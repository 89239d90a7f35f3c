"""Pods of ours as they come and go, seen by a watch: which are up at rest, and how soon."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType

from tests.support.cluster.kubectl import Body, Kubectl, until

OURS = "app.kubernetes.io/name=headrace"


@dataclass(frozen=True, slots=True)
class Sight:
    """One pod at one moment of the monotonic clock.

    Attributes:
        leaving: it was told to end; Knative asks nothing of it any more.
        gone: it is there no more.
    """

    at: float
    name: str
    component: str
    leaving: bool
    gone: bool


class Pods:
    """Use it as a context manager: it sees what happens meanwhile."""

    def __init__(self, kubectl: Kubectl) -> None:
        watch = ("--watch", "--output-watch-events", "-o", "json")
        self._command = kubectl.command("get", "pods", "--all-namespaces", f"--selector={OURS}", *watch)
        self._sights: list[Sight] = []

    def __enter__(self) -> Pods:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        self._thread = threading.Thread(target=self._read, name="pods", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._thread.join(10)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def up(self) -> list[str]:
        """Components of those that are there and were not told to end."""
        return sorted(each.component for each in _last(self._sights).values() if not each.leaving and not each.gone)

    def wait_for_rest(self, *components: str, seconds: float = 120.0) -> None:
        """Until just these are up."""
        wanted = sorted(components)
        until(f"of ours are up: {wanted}", lambda: self.up() == wanted, seconds)

    def ended_after(self, moment: float, *, gone: bool = False) -> dict[str, float]:
        """Seconds from a moment until the last pod of each component that was up then was told to end, or is gone."""
        found: dict[str, float] = {}
        for name, ended in _first(each for each in self._sights if each.leaving or each.gone).items():
            left = _first(each for each in self._sights if each.gone).get(name) if gone else ended
            if ended.at > moment and left is not None:
                found[ended.component] = max(found.get(ended.component, 0.0), left.at - moment)
        return found

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._sights.append(_sight(json.loads(line)))


def _sight(event: Body) -> Sight:
    metadata = event["object"]["metadata"]
    component = metadata["labels"].get("app.kubernetes.io/component", "")
    return Sight(
        time.monotonic(), metadata["name"], component, "deletionTimestamp" in metadata, event["type"] == "DELETED"
    )


def _last(sights: Iterable[Sight]) -> dict[str, Sight]:
    return {each.name: each for each in list(sights)}


def _first(sights: Iterable[Sight]) -> dict[str, Sight]:
    found: dict[str, Sight] = {}
    for each in list(sights):
        found.setdefault(each.name, each)
    return found

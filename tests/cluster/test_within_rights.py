"""Over the whole run: no request of ours to the API server or to NATS was refused for want of a right.

The API server's audit log has every request of every account; logs of pods of ours are those since the first test.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass

import pytest

from infra.cluster.instance import Cluster
from tests.cluster.conftest import Told
from tests.support.cluster.kept_logs import KeptLogs
from tests.support.cluster.load import World

ACCOUNTS = ("headrace-operator", "headrace-functions")
REFUSED = ("forbidden", "permissions violation", "authorization violation")
# Which Secret a namespace's ConfigMap names is read by a `reconcile` in that namespace: it and the first `receive`
# there begin without, and have the Secret mounted some seconds later (`tests/cluster/test_scopes.py`).
NOT_YET = ("tenant_", "authorization violation")


@dataclass(frozen=True, slots=True)
class Request:
    """One of ours to the API server, when it came, and the answer."""

    at: str
    verb: str
    uri: str
    code: int
    message: str

    @property
    def lacks_a_right(self) -> bool:
        """Whether it was refused for that. What is new in a namespace that is going is refused with 403, too."""
        return self.code == 401 or (self.code == 403 and " cannot " in self.message)


def requests(cluster: Cluster) -> dict[str, list[Request]]:
    """By the pod that they came from, in order."""
    found: dict[str, list[Request]] = defaultdict(list)
    with (cluster.logs / "audit.log").open(encoding="utf-8") as log:
        for line in log:
            entry = json.loads(line)
            if entry["user"]["username"].rpartition(":")[2] in ACCOUNTS:
                (pod,) = entry["user"]["extra"]["authentication.kubernetes.io/pod-name"]
                answer = entry.get("responseStatus", {})
                told = answer.get("code", 0), answer.get("message", "")
                found[pod].append(Request(entry["requestReceivedTimestamp"], entry["verb"], entry["requestURI"], *told))
    # A watch is in the log when it ends.
    return {pod: sorted(asked, key=lambda one: one.at) for pod, asked in found.items()}


def refused_in_service(asked: list[Request]) -> list[Request]:
    """Without those after which the pod was granted nothing more: `kubectl delete -f` takes rights before pods."""
    granted = max((number for number, one in enumerate(asked) if 200 <= one.code < 300), default=-1)
    return [one for one in asked[: granted + 1] if one.lacks_a_right]


def is_refused(name: str, line: str) -> bool:
    """Args: of the pod's log, and a line of it in lower case."""
    begins, words = NOT_YET
    return any(word in line for word in REFUSED) and not (name.startswith(begins) and words in line)


@pytest.mark.short
def test_nothing_of_ours_was_refused_for_want_of_a_right(
    cluster: Cluster, world: World, kept_logs: KeptLogs, told: Told
) -> None:
    asked = requests(cluster)
    refused = [one for pod in asked.values() for one in refused_in_service(pod)]
    lines = list(kept_logs.lines())
    wrong = [(name, line) for name, line in lines if is_refused(name, line.lower())]
    assert refused == []
    assert wrong == []
    count = sum(map(len, asked.values()))
    assert count > 100
    assert {name.partition("_")[2].rsplit("_", 2)[1] for name, _ in lines} >= {
        "operator",
        "reconcile",
        "receive",
        "forward",
    }
    told(
        f"{count} requests of ours to the API server, none refused for want of a right while its pod served; "
        f"{len(lines)} lines of log, not one of a refusal"
    )

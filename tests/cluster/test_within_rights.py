"""Over the whole run: nothing that a part of ours asked of the API server or of NATS was refused for want of a right.

The API server's audit log has every request of every account; logs of pods of ours are those since the first test.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass

import pytest

from infra.cluster.instance import Cluster
from tests.cluster.conftest import Told
from tests.cluster.kept_logs import KeptLogs
from tests.cluster.load import World

ACCOUNTS = ("headrace-operator", "headrace-functions")
REFUSED = ("forbidden", "permissions violation", "authorization violation")


@dataclass(frozen=True, slots=True)
class Request:
    """One of ours to the API server, and the status of its answer."""

    verb: str
    uri: str
    code: int


def requests(cluster: Cluster) -> dict[str, list[Request]]:
    """By the pod that they came from, in order."""
    found: dict[str, list[Request]] = defaultdict(list)
    with (cluster.logs / "audit.log").open(encoding="utf-8") as log:
        for line in log:
            entry = json.loads(line)
            if entry["user"]["username"].rpartition(":")[2] in ACCOUNTS:
                (pod,) = entry["user"]["extra"]["authentication.kubernetes.io/pod-name"]
                code = entry.get("responseStatus", {}).get("code", 0)
                found[pod].append(Request(entry["verb"], entry["requestURI"], code))
    return found


def refused_in_service(asked: list[Request]) -> list[Request]:
    """Without those after which the pod was granted nothing more: `kubectl delete -f` takes its rights before the pod."""
    granted = max((number for number, one in enumerate(asked) if 200 <= one.code < 300), default=-1)
    return [one for one in asked[: granted + 1] if one.code in (401, 403)]


@pytest.mark.short
def test_nothing_of_ours_was_refused_for_want_of_a_right(
    cluster: Cluster, world: World, kept_logs: KeptLogs, told: Told
) -> None:
    asked = requests(cluster)
    refused = [one for pod in asked.values() for one in refused_in_service(pod)]
    lines = list(kept_logs.lines())
    wrong = [(name, line) for name, line in lines if any(word in line.lower() for word in REFUSED)]
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
        f"{count} requests of ours to the API server, 0 of them 401 or 403; {len(lines)} lines of log, "
        "not one of a refusal"
    )

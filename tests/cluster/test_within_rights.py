"""Over the whole run: nothing that a part of ours asked of the API server or of NATS was refused for want of a right.

The API server's audit log has every request of every account; logs of pods of ours are those since the first test.
"""

from __future__ import annotations

import json
from collections import Counter

import pytest

from infra.cluster.instance import Cluster
from tests.cluster.conftest import Told
from tests.cluster.kept_logs import KeptLogs
from tests.cluster.load import World

# `kubectl delete -f` takes the operator's rights before its pod, which then can't give its Lease back.
LEASE = "/leases/headrace-operator"
ACCOUNTS = ("headrace-operator", "headrace-functions")
REFUSED = ("forbidden", "permissions violation", "authorization violation")


@pytest.mark.short
def test_nothing_of_ours_was_refused_for_want_of_a_right(
    cluster: Cluster, world: World, kept_logs: KeptLogs, told: Told
) -> None:
    asked: Counter[int] = Counter()
    refused = []
    with (cluster.logs / "audit.log").open(encoding="utf-8") as log:
        for line in log:
            entry = json.loads(line)
            if entry["user"]["username"].rpartition(":")[2] in ACCOUNTS:
                code = entry.get("responseStatus", {}).get("code", 0)
                asked[code] += 1
                if code in (401, 403) and not entry["requestURI"].endswith(LEASE):
                    refused.append((entry["verb"], entry["requestURI"]))
    lines = list(kept_logs.lines())
    wrong = [(name, line) for name, line in lines if any(word in line.lower() for word in REFUSED)]
    assert refused == []
    assert wrong == []
    assert sum(asked.values()) > 100
    assert {name.partition("_")[2].rsplit("_", 2)[1] for name, _ in lines} >= {
        "operator",
        "reconcile",
        "receive",
        "forward",
    }
    told(
        f"{sum(asked.values())} requests of ours to the API server, 0 of them 401 or 403; {len(lines)} lines of log, "
        "not one of a refusal"
    )

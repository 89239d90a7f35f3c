"""The workload that runs `reconcile`: where it is, and whether its newest pods are up."""

from __future__ import annotations

from typing import Any

import pytest

from headrace_operator.channels.hook_workload import place, up


@pytest.mark.parametrize(
    ("url", "named", "found"),
    [
        pytest.param(
            "http://headrace-reconcile.knative-eventing.svc",
            None,
            ("knative-eventing", "headrace-reconcile"),
            id="short",
        ),
        pytest.param("http://r.ns.svc.cluster.local:8080/hooks", None, ("ns", "r"), id="with the cluster's domain"),
        pytest.param("http://127.0.0.1:8080", None, None, id="an address"),
        pytest.param("http://reconcile", None, None, id="one word"),
        pytest.param("http://reconcile.example.com", None, None, id="somewhere else"),
        pytest.param("https://gateway.example.com", "shop/reconcile", ("shop", "reconcile"), id="named"),
    ],
)
def test_the_workload_is_of_the_name_of_the_host(url: str, named: str | None, found: tuple[str, str] | None) -> None:
    assert place(url, named) == found


def deployment(image: str = "a", generation: int = 2, **status: int) -> dict[str, Any]:
    seen = {"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}
    return {
        "kind": "Deployment",
        "metadata": {"generation": generation},
        "spec": {"template": {"image": image}},
        "status": {**seen, **status},
    }


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(deployment(generation=3), id="its controller has not seen the edit"),
        pytest.param(deployment(replicas=2), id="an old pod is there still"),
        pytest.param(deployment(availableReplicas=0), id="the new pod is not available"),
        pytest.param(deployment(replicas=0, updatedReplicas=0, availableReplicas=0), id="none is wanted"),
        pytest.param({"kind": "Deployment", "metadata": {}, "spec": {}}, id="nothing is known"),
        pytest.param({"kind": "Service", "metadata": {}, "spec": {}}, id="no revision was ever ready"),
    ],
)
def test_nothing_is_up_while_it_is_on_its_way(body: dict[str, Any]) -> None:
    assert up(body) == ""


def test_what_is_up_is_told_apart_by_what_pods_are_made_of() -> None:
    now = up(deployment())
    assert now
    assert up(deployment(generation=2, replicas=3, updatedReplicas=3, availableReplicas=3)) == now
    assert up(deployment(image="b")) not in ("", now)
    assert up({"kind": "Service", "metadata": {}, "status": {"latestReadyRevisionName": "r-00002"}}) == "r-00002"

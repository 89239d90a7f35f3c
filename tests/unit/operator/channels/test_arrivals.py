"""Which changes of a Deployment that Knative keeps say that a request has arrived at a function that sleeps."""

from __future__ import annotations

from typing import Any

import pytest

from headrace_operator.channels.arrivals import woken


def deployment(replicas: int, uid: str = "aaaa-1") -> dict[str, Any]:
    return {"metadata": {"uid": uid}, "spec": {"replicas": replicas}}


@pytest.mark.parametrize(
    ("old", "new", "arrived"),
    [
        pytest.param(deployment(0), deployment(1), True, id="from zero to one"),
        pytest.param(deployment(0), deployment(3), True, id="from zero to more"),
        pytest.param(deployment(0), deployment(0), False, id="it sleeps on"),
        pytest.param(deployment(1), deployment(2), False, id="more pods of one that is up"),
        pytest.param(deployment(1), deployment(0), False, id="it goes to sleep"),
        pytest.param(None, deployment(1), False, id="a new revision begins with a pod"),
        pytest.param(None, deployment(0), False, id="or without"),
        pytest.param(deployment(0), deployment(1, "bbbb-2"), False, id="another one of its name"),
        pytest.param(deployment(0), None, False, id="it is gone"),
    ],
)
def test_a_request_has_arrived(old: dict[str, Any] | None, new: dict[str, Any] | None, arrived: bool) -> None:
    assert woken(old, new) is arrived

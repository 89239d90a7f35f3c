"""Knative Services: each setting of the measured ones, and why it is as it is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.functions.channels import entry
from tests.support.functions.children import SECURITY_VOLUME, all_of, at, the, wanted

KSVC = "Service.serving.knative.dev/v1"
AUTOSCALING = "spec/template/metadata/annotations/autoscaling.knative.dev~"
POD = "spec/template/spec/"
CONTAINER = POD + "containers/0/"


def look(body: dict[str, Any], path: str) -> Any:
    """Like `at`; `~` stands for the slash in the key of an annotation."""
    if path.startswith(AUTOSCALING):
        return body["spec"]["template"]["metadata"]["annotations"].get(
            path.removeprefix("spec/template/metadata/annotations/").replace("~", "/")
        )
    return at(body, path)


FORWARD = [
    pytest.param(POD + "containerConcurrency", 1, id="a lease has its pod: with 0 the first round piles up on one pod"),
    pytest.param(AUTOSCALING + "target", "1", id="as many pods as leases"),
    pytest.param(AUTOSCALING + "target-utilization-percentage", "100", id="at 70 three leases would get five pods"),
    pytest.param(
        AUTOSCALING + "target-burst-capacity", "-1", id="the activator, which knows free pods, stays in the path"
    ),
    pytest.param(AUTOSCALING + "window", "6s", id="pods go soon after leases, and outlast the pause between two"),
    pytest.param(AUTOSCALING + "min-scale", "0", id="nothing runs while nothing flows"),
    pytest.param(AUTOSCALING + "max-scale", "4", id="a lease beyond would wait inside its own timeout"),
    pytest.param(AUTOSCALING + "class", "kpa.autoscaling.knative.dev", id="another autoscaler may not know zero"),
    pytest.param(AUTOSCALING + "metric", "concurrency", id="leases are few and long: requests per second say nothing"),
    pytest.param(AUTOSCALING + "initial-scale", "1", id="what no receive has proved begins with a pod"),
    pytest.param(POD + "timeoutSeconds", 90, id="30 s for lease and cold start, and the default delivery of 60 s"),
    pytest.param(POD + "responseStartTimeoutSeconds", 90, id="a lease answers at its end, not at its start"),
    pytest.param(POD + "automountServiceAccountToken", False, id="it never talks to Kubernetes"),
    pytest.param(POD + "enableServiceLinks", False, id="thousands of Services would be thousands of variables"),
    pytest.param(CONTAINER + "securityContext/runAsNonRoot", True, id="restricted: not root"),
    pytest.param(CONTAINER + "securityContext/readOnlyRootFilesystem", True, id="it writes no files"),
    pytest.param(CONTAINER + "securityContext/allowPrivilegeEscalation", False, id="restricted: no escalation"),
    pytest.param(CONTAINER + "securityContext/capabilities", {"drop": ["ALL"]}, id="restricted: no capabilities"),
    pytest.param(CONTAINER + "securityContext/seccompProfile", {"type": "RuntimeDefault"}, id="restricted: seccomp"),
    pytest.param(
        CONTAINER + "readinessProbe",
        {"httpGet": {"path": "/health/readiness", "port": 8080}, "periodSeconds": 1, "timeoutSeconds": 1},
        id="the usual ten seconds would keep it for as long after its last request",
    ),
    pytest.param(CONTAINER + "startupProbe", None, id="it would hold each cold start back for a second"),
    pytest.param(
        CONTAINER + "livenessProbe/httpGet/path", "/health/liveness", id="NATS being away is no reason to restart"
    ),
    pytest.param(CONTAINER + "ports", [{"name": "http1", "containerPort": 8080}], id="the port that the image serves"),
    pytest.param(
        CONTAINER + "env",
        [
            {"name": "FUNCTION_TARGET", "value": "forward"},
            {"name": "NATS_URL", "value": "nats://nats:4222"},
            {"name": "HEADRACE_SECURITY_DIR", "value": "/etc/headrace/security"},
            {"name": "HEADRACE_CALLER_DIGEST", "value": "known by forward-billing-13416b359c4f1944"},
            {"name": "HEADRACE_SECURITY_PLACE", "value": "knative-eventing"},
        ],
        id="which function, which NATS, and by what it knows its callers",
    ),
    pytest.param(POD + "volumes", [SECURITY_VOLUME], id="no Secret has to be there for it"),
    pytest.param(
        CONTAINER + "resources",
        {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}},
        id="room for the bytes that it may hold",
    ),
]


@pytest.mark.parametrize(("path", "value"), FORWARD)
def test_forward_of_a_subscriber(path: str, value: object) -> None:
    body = the(wanted(entry()), KSVC, "forward")

    assert look(body, path) == value


def test_nobody_outside_of_the_cluster_may_open_leases_or_send() -> None:
    labels = [one["metadata"]["labels"] for one in all_of(wanted(entry()), KSVC)]

    assert [one["networking.knative.dev/visibility"] for one in labels] == ["cluster-local", "cluster-local"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param(POD + "containerConcurrency", 0, id="events wait for NATS, not for a CPU"),
        pytest.param(AUTOSCALING + "target", "100", id="a pod takes a hundred that wait"),
        pytest.param(AUTOSCALING + "window", "6s", id="as soon at zero again as forward is"),
        pytest.param(AUTOSCALING + "initial-scale", "1", id="one start proves image, pull secrets and settings"),
        pytest.param(AUTOSCALING + "min-scale", "0", id="nothing runs while nothing flows"),
        pytest.param(AUTOSCALING + "max-scale", None, id="as many as it takes"),
        pytest.param(POD + "timeoutSeconds", 60, id="an event is stored or refused long before"),
        pytest.param(
            CONTAINER + "env",
            [
                {"name": "FUNCTION_TARGET", "value": "receive"},
                {"name": "NATS_URL", "value": "nats://nats:4222"},
                {"name": "HEADRACE_SECURITY_DIR", "value": "/etc/headrace/security"},
                {"name": "RECEIVE_HOST_ADDRESSES", "value": "false"},
                {"name": "RECEIVE_TLS_PROXIES", "value": "127.0.0.1,::1"},
                {"name": "HEADRACE_SECURITY_PLACE", "value": "knative-eventing"},
            ],
            id="by path alone: its queue-proxy lets callers set the Host",
        ),
        pytest.param(POD + "volumes", [SECURITY_VOLUME], id="no Secret has to be there for it"),
    ],
)
def test_receive(path: str, value: object) -> None:
    assert look(the(wanted(entry()), KSVC, "receive"), path) == value


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param(POD + "containerConcurrency", 7, id="leases per pod"),
        pytest.param(AUTOSCALING + "target", "7", id="the same"),
        pytest.param(AUTOSCALING + "max-scale", "3", id="by the installation: no channel knows the others"),
        pytest.param(POD + "timeoutSeconds", 570, id="the longest delivery that any subscriber may have"),
    ],
)
def test_a_shared_forward(path: str, value: object) -> None:
    settings = {"isolation": "shared", "leases_per_pod": 7, "shared_max_scale": 3}

    body = the(wanted(entry("a"), entry("b", "mail"), settings=settings), KSVC, "forward")

    assert body["metadata"]["name"] == "headrace-forward"
    assert look(body, path) == value


@pytest.mark.parametrize(
    ("timeout", "seconds"),
    [("PT1S", 60), ("PT30S", 60), ("PT30.5S", 61), ("PT2M", 150), ("PT9M", 570)],
)
def test_a_lease_outlives_one_delivery(timeout: str, seconds: int) -> None:
    """At least 60 s, and with the longest delivery still within the 600 s that a cluster allows by default."""
    body = the(wanted(entry(delivery={"timeout": timeout})), KSVC, "forward")

    assert body["spec"]["template"]["spec"]["timeoutSeconds"] == seconds


def test_the_pods_of_a_subscriber_are_at_most_what_annotations_say_and_one_where_order_is_kept() -> None:
    annotations = {"headrace.dev/max-scale": "9", "headrace.dev/delivery-order": "ordered"}

    pods = [
        look(the(wanted(entry(), annotations={name: annotations[name] for name in given}), KSVC, "forward"), path)
        for path in (AUTOSCALING + "max-scale",)
        for given in (["headrace.dev/max-scale"], list(annotations))
    ]

    assert pods == ["9", "1"]

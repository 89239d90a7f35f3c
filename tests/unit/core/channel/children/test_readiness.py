"""The meaning of its functions' states for a channel (FunctionsReady, Ready) and for its subscribers."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.channel.children import Functions, readiness
from headrace.core.channel.children.state import FunctionState, State, state
from tests.support.functions.channels import entry
from tests.support.functions.children import wanted

PLAIN = {"runtime": "deployment"}
KSVC, DEPLOYMENT = "Service", "Deployment"
NO_NODE = (
    "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims found."
)
QUOTA = 'pods "x-" is forbidden: exceeded quota: small, requested: pods=1, used: pods=5, limited: pods=5'
BAD_IMAGE = 'Unable to fetch image "registry.example/headrace:2": failed to resolve image to digest: HEAD: 404'
FIRST = {"latestCreatedRevisionName": "r-1", "latestReadyRevisionName": "r-1"}
NEWER = {"latestCreatedRevisionName": "r-2", "latestReadyRevisionName": "r-1"}


def revision_failed(words: str, name: str = "r-1") -> dict[str, str]:
    """As a Knative Service says it of its newest revision."""
    return {
        "status": "False",
        "reason": "RevisionFailed",
        "message": f'Revision "{name}" failed with message: {words}.',
    }


def one(kind: str, members: dict[str, Any] | None = None, **conditions: dict[str, str]) -> dict[str, Any]:
    told = [{"type": type_, **said} for type_, said in conditions.items()]
    return {"kind": kind, "status": {"conditions": told, **(members or {})}}


UNROUTED = {"status": "False", "reason": "RevisionMissing", "message": 'Revision "r-1" failed to become ready.'}
YES, NO, PERHAPS = {"status": "True"}, {"status": "False"}, {"status": "Unknown"}
COMPLETE = {"status": "True", "reason": "NewReplicaSetAvailable"}
ON_ITS_WAY = {"status": "True", "reason": "ReplicaSetUpdated"}
TIMED_OUT = {
    "status": "False",
    "reason": "ProgressDeadlineExceeded",
    "message": 'ReplicaSet "x" has timed out progressing.',
}
REFUSED = {"status": "True", "reason": "FailedCreate", "message": 'pods "x-" is forbidden: violates PodSecurity'}


@pytest.mark.parametrize(
    ("live", "standing", "serves"),
    [
        pytest.param(None, FunctionState.STARTS, False, id="not there yet"),
        pytest.param(one(KSVC), FunctionState.STARTS, False, id="made this moment"),
        pytest.param(
            one(KSVC, FIRST, Ready=YES, RoutesReady=YES), FunctionState.WORKS, True, id="ready, at zero or not"
        ),
        pytest.param(
            one(KSVC, {"latestCreatedRevisionName": "r-1"}, Ready=PERHAPS),
            FunctionState.STARTS,
            False,
            id="its first pod starts",
        ),
        pytest.param(
            one(KSVC, FIRST, Ready=PERHAPS, RoutesReady=PERHAPS),
            FunctionState.STARTS,
            False,
            id="not reached by the gateway yet",
        ),
        pytest.param(
            one(KSVC, {"latestCreatedRevisionName": "r-1"}, Ready=revision_failed(NO_NODE)),
            FunctionState.NO_ROOM,
            False,
            id="its first pod finds no room",
        ),
        pytest.param(
            one(KSVC, FIRST, Ready=revision_failed(NO_NODE), RoutesReady=YES),
            FunctionState.NO_ROOM,
            True,
            id="woken, and there is no room",
        ),
        pytest.param(
            one(KSVC, FIRST, Ready=UNROUTED, RoutesReady=UNROUTED, ConfigurationsReady=revision_failed(NO_NODE)),
            FunctionState.NO_ROOM,
            True,
            id="the same, as Knative says it in the end",
        ),
        pytest.param(
            one(KSVC, FIRST, Ready=UNROUTED, RoutesReady=UNROUTED, ConfigurationsReady=revision_failed("exit 1")),
            FunctionState.FAILED,
            False,
            id="woken, and it crashes",
        ),
        pytest.param(
            one(KSVC, FIRST, Ready=revision_failed(QUOTA), RoutesReady=YES),
            FunctionState.NO_ROOM,
            True,
            id="its quota is used up",
        ),
        pytest.param(
            one(KSVC, {"latestCreatedRevisionName": "r-1"}, Ready=revision_failed(BAD_IMAGE)),
            FunctionState.FAILED,
            False,
            id="an image that is not there",
        ),
        pytest.param(
            one(KSVC, NEWER, Ready=revision_failed(BAD_IMAGE, "r-2"), RoutesReady=YES),
            FunctionState.FAILED,
            True,
            id="an image that is not there, and the one before serves",
        ),
        pytest.param(
            one(KSVC, NEWER, Ready=PERHAPS, RoutesReady=YES),
            FunctionState.STARTS,
            True,
            id="a newer one starts, the old serves",
        ),
        pytest.param(
            one(KSVC, FIRST, Ready=revision_failed("Container failed with: no such Secret"), RoutesReady=YES),
            FunctionState.FAILED,
            False,
            id="what requests go to crashes",
        ),
        pytest.param(
            one(DEPLOYMENT, Available=NO, Progressing=ON_ITS_WAY), FunctionState.STARTS, False, id="pods start"
        ),
        pytest.param(
            one(DEPLOYMENT, Available=YES, Progressing=COMPLETE), FunctionState.WORKS, True, id="pods are there"
        ),
        pytest.param(
            one(DEPLOYMENT, Available=NO, Progressing=COMPLETE),
            FunctionState.STARTS,
            True,
            id="its pod is replaced, it was ready",
        ),
        pytest.param(
            one(DEPLOYMENT, Available=NO, Progressing=TIMED_OUT), FunctionState.FAILED, False, id="pods get nowhere"
        ),
        pytest.param(
            one(DEPLOYMENT, Available=YES, Progressing=TIMED_OUT),
            FunctionState.FAILED,
            True,
            id="new pods get nowhere, old serve",
        ),
        pytest.param(
            one(DEPLOYMENT, Available=NO, Progressing=ON_ITS_WAY, ReplicaFailure=REFUSED),
            FunctionState.FAILED,
            False,
            id="pods are refused",
        ),
        pytest.param(
            one(DEPLOYMENT, Available=NO, Progressing=ON_ITS_WAY, ReplicaFailure={**REFUSED, "message": QUOTA}),
            FunctionState.NO_ROOM,
            False,
            id="pods would be too many",
        ),
        pytest.param(
            one(DEPLOYMENT, Available=NO, Progressing=COMPLETE, ReplicaFailure={**REFUSED, "message": QUOTA}),
            FunctionState.NO_ROOM,
            True,
            id="they were there before, and would be too many now",
        ),
    ],
)
def test_how_a_function_is(live: dict[str, Any] | None, standing: FunctionState, serves: bool) -> None:
    found = state(live)

    assert (found.standing, found.serves) == (standing, serves)
    assert found.words if standing in (FunctionState.FAILED, FunctionState.NO_ROOM) else True


def test_while_requests_are_led_to_a_newer_revision_it_serves_as_before() -> None:
    moving = one(KSVC, FIRST, Ready=PERHAPS, RoutesReady=PERHAPS)

    assert [state(moving, worked=worked).serves for worked in (False, True)] == [False, True]
    assert not state(one(KSVC, FIRST, Ready=NO, RoutesReady=NO), worked=True).serves


def says(body: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    return {**body, "status": found["status"]}


def told(receive: dict[str, Any], *forwards: dict[str, Any], **given: Any) -> Functions:
    """Of a channel with so many subscribers, all of whose functions are there."""
    entries = [entry(f"uid-{number}", f"sub{number}") for number, _ in enumerate(forwards)]
    objects = wanted(*entries, **given).objects
    rest = iter(forwards)
    observed = [
        says(body, receive if body["metadata"]["name"].startswith(("headrace-receive", "receive")) else next(rest))
        for body in objects
        if body["kind"] == DEPLOYMENT or body["apiVersion"].startswith("serving")
    ]
    return wanted(*entries, observed=observed, shared=(), **given)


WORKS = one(KSVC, FIRST, Ready=YES, RoutesReady=YES)
STARTS = one(KSVC, Ready=PERHAPS)
NO_ROOM = one(KSVC, {"latestCreatedRevisionName": "r-1"}, Ready=revision_failed(NO_NODE))
BROKEN = one(KSVC, {"latestCreatedRevisionName": "r-1"}, Ready=revision_failed(BAD_IMAGE))
OLD_SERVES = one(KSVC, NEWER, Ready=revision_failed(BAD_IMAGE, "r-2"), RoutesReady=YES)
NO_ROOM_NOW = one(KSVC, FIRST, Ready=revision_failed(NO_NODE), RoutesReady=YES)


@pytest.mark.parametrize(
    ("receive", "forwards", "expected", "subscribers"),
    [
        pytest.param(WORKS, [WORKS], ("True", "", False), ["True"], id="all work"),
        pytest.param(WORKS, [], ("True", "", False), [], id="nobody subscribes"),
        pytest.param(
            STARTS, [WORKS], ("Unknown", "FunctionsStarting", False), ["True"], id="nothing can be stored yet"
        ),
        pytest.param(NO_ROOM, [WORKS], ("Unknown", "NoRoom", False), ["True"], id="nothing could ever be stored"),
        pytest.param(BROKEN, [STARTS], ("False", "FunctionFailed", False), ["Unknown"], id="nothing can be stored"),
        pytest.param(WORKS, [STARTS], ("False", "FunctionsStarting", True), ["Unknown"], id="a first delivery starts"),
        pytest.param(WORKS, [NO_ROOM], ("False", "NoRoom", True), ["Unknown"], id="a first delivery finds no room"),
        pytest.param(
            WORKS, [BROKEN, WORKS], ("False", "FunctionFailed", True), ["False", "True"], id="one can't deliver"
        ),
        pytest.param(OLD_SERVES, [WORKS], ("False", "UpdateFailed", True), ["True"], id="what stored before stores on"),
        pytest.param(
            WORKS, [OLD_SERVES], ("False", "UpdateFailed", True), ["True"], id="what delivered before goes on"
        ),
        pytest.param(NO_ROOM_NOW, [WORKS], ("False", "NoRoom", True), ["True"], id="at zero, and no room to wake it"),
        pytest.param(WORKS, [NO_ROOM_NOW], ("False", "NoRoom", True), ["True"], id="the same of a forward"),
    ],
)
def test_functions_ready(
    receive: dict[str, Any],
    forwards: list[dict[str, Any]],
    expected: tuple[str, str, bool],
    subscribers: list[str],
) -> None:
    functions = told(receive, *forwards)

    (said,) = functions.conditions
    status = "True" if said.holds else "Unknown" if said.unknown else "False"
    assert (said.type, status, said.reason, said.informative) == ("FunctionsReady", *expected)
    assert [one.ready for one in functions.readiness.values()] == subscribers


def test_a_failure_is_told_with_its_name_and_words() -> None:
    functions = told(BROKEN, BROKEN)

    (said,) = functions.conditions
    assert said.message == f'headrace-receive: Revision "r-1" failed with message: {BAD_IMAGE}.'
    (subscriber,) = functions.readiness.values()
    assert subscriber.message.startswith("forward-sub0-")
    assert BAD_IMAGE in subscriber.message


def test_what_is_not_there_yet_keeps_the_channel_from_being_ready() -> None:
    (said,) = wanted(entry(), shared=()).conditions

    assert (said.reason, said.unknown, said.informative) == ("FunctionsStarting", True, False)
    assert said.message.startswith("not ready yet: headrace-receive")


def test_of_what_is_shared_with_other_namespaces_nobody_may_have_told() -> None:
    (forward,) = (one for one in wanted(entry()).objects if one["metadata"]["name"].startswith("forward-"))

    of_before = wanted(entry(), observed=[says(forward, WORKS)], shared=None)
    of_one_namespace = wanted(entry(), observed=[says(forward, WORKS)], shared=(), watched="shop")

    assert [one.conditions[0].holds for one in (of_before, of_one_namespace)] == [True, True]
    assert (
        not wanted(entry(), observed=[says(forward, WORKS)], shared=(), watched="knative-eventing").conditions[0].holds
    )


@pytest.mark.parametrize("access", [{}, {"connection": {"secretRef": {"name": "own"}}}], ids=["shared", "of its own"])
def test_an_operator_of_one_namespace_says_nothing_of_functions_in_another(access: dict[str, Any]) -> None:
    functions = wanted(entry(), shared=(), watched="shop", **access)

    assert {one["metadata"]["namespace"] for one in functions.objects} == {"knative-eventing"}
    assert (functions.conditions[0].holds, functions.readiness) == (True, {})


def test_what_an_operator_of_one_namespace_knows_of_another_is_no_news() -> None:
    functions = told(STARTS, BROKEN, watched="shop")

    assert (functions.conditions[0].holds, functions.readiness) == (True, {})


def test_a_forward_that_subscribers_share_is_told_of_each() -> None:
    settings = {"isolation": "shared"}
    objects = wanted(entry("a"), entry("b", "mail"), settings=settings).objects
    observed = [says(one, BROKEN if "forward" in one["metadata"]["name"] else WORKS) for one in objects]

    functions = wanted(entry("a"), entry("b", "mail"), settings=settings, shared=observed)

    assert [one.ready for one in functions.readiness.values()] == ["False", "False"]


def test_a_subscriber_whose_forward_the_cluster_can_not_run_is_not_ready() -> None:
    functions = wanted(entry(), apis=(), settings=PLAIN, annotations={"headrace.dev/runtime": "knative"})

    (subscriber,) = functions.readiness.values()
    assert (subscriber.ready, "serving.knative.dev/v1" in subscriber.message) == ("False", True)


def test_deployments_are_told_the_same_way() -> None:
    functions = told(
        one(DEPLOYMENT, Available=YES, Progressing=COMPLETE),
        one(DEPLOYMENT, Available=NO, Progressing=TIMED_OUT),
        settings=PLAIN,
    )

    (said,) = functions.conditions
    assert (said.reason, said.informative) == ("FunctionFailed", True)
    assert [one.ready for one in functions.readiness.values()] == ["False"]


@pytest.mark.parametrize(
    ("said", "worked"),
    [
        ({"type": "FunctionsReady", "status": "True"}, True),
        ({"type": "FunctionsReady", "status": "False", "severity": "Info"}, True),
        ({"type": "FunctionsReady", "status": "Unknown"}, False),
        ({"type": "Ready", "status": "True"}, False),
    ],
)
def test_what_was_told_before_is_read_off_the_status(said: dict[str, str], worked: bool) -> None:
    assert readiness.worked({"conditions": [said]}) is worked


def test_a_state_that_serves_is_ready_whatever_else_is_wrong() -> None:
    assert readiness.of_subscriber("x", State(FunctionState.FAILED, "words", serves=True)).ready == "True"

"""A new template has answered a probe before requests go to it, and each `forward` waits for its `receive`."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.channel.children import Functions
from headrace.core.channel.children.proof import INITIAL_SCALE, RETRY_ANNOTATION
from tests.support.functions.channels import entry
from tests.support.functions.children import IMAGE, all_of, at, the, wanted

KSVC = "Service.serving.knative.dev/v1"
NEW = "registry.example/headrace@sha256:" + "1" * 64
UPGRADED = {"image": NEW}
BILLING = entry("aaaa-1")


def as_it_is(
    body: dict[str, Any], *, ready: str = "r-1", created: str = "r-1", configuration: str = "True", seen: int = 1
) -> dict[str, Any]:
    """With a status, and with what the server adds to the template."""
    conditions = [
        {"type": "Ready", "status": configuration},
        {"type": "ConfigurationsReady", "status": configuration},
        {"type": "RoutesReady", "status": "True"},
    ]
    revisions = {"latestReadyRevisionName": ready, "latestCreatedRevisionName": created}
    status = {
        "conditions": conditions,
        "observedGeneration": seen,
        **{key: one for key, one in revisions.items() if one},
    }
    template = body["spec"]["template"]
    pods = {**template["spec"], "enableServiceLinks": False, "defaulted": "by the server"}
    metadata = {**body["metadata"], "generation": 1, "uid": "u"}
    return {**body, "metadata": metadata, "spec": {"template": {**template, "spec": pods}}, "status": status}


def after(before: Functions, *, receive: dict[str, Any] | None = None, **given: Any) -> Functions:
    """What is wanted once all that was wanted before is there."""
    objects = [
        as_it_is(one, **((receive or {}) if "receive" in one["metadata"]["name"] else {})) for one in before.objects
    ]
    shared = [one for one in objects if "headrace.dev/shared" in one["metadata"]["labels"]]
    own = [one for one in objects if one not in shared]
    return wanted(given.pop("of", BILLING), observed=own, shared=shared, **given)


def image(functions: Functions, component: str) -> Any:
    return at(the(functions, KSVC, component), "spec/template/spec/containers/0/image")


def begins_with(body: dict[str, Any]) -> Any:
    return body["spec"]["template"]["metadata"]["annotations"][INITIAL_SCALE]


def scales(functions: Functions) -> dict[str, Any]:
    return {
        component: begins_with(one)
        for component in ("receive", "forward")
        for one in all_of(functions, KSVC, component)
    }


def test_where_nothing_is_proven_everything_begins_with_a_pod() -> None:
    assert scales(wanted(BILLING, shared=(), zero=True)) == {"receive": "1", "forward": "1"}


@pytest.mark.parametrize(("zero", "scale"), [(True, "0"), (False, "1")])
def test_a_forward_begins_at_zero_where_the_receive_beside_it_has_been_ready_and_the_cluster_allows_it(
    zero: bool, scale: str
) -> None:
    assert scales(after(wanted(shared=()), zero=zero)) == {"receive": "1", "forward": scale}


@pytest.mark.parametrize(
    "receive",
    [
        pytest.param({"ready": ""}, id="it never was ready"),
        pytest.param({"created": "r-2", "configuration": "Unknown"}, id="a newer one starts"),
        pytest.param({"created": "r-2", "configuration": "False"}, id="a newer one has failed"),
        pytest.param({"configuration": "Unknown"}, id="there is no revision of the newest template yet"),
        pytest.param({"seen": 0}, id="Knative has not seen the newest template"),
    ],
)
def test_a_receive_that_was_not_ready_with_the_template_of_now_proves_nothing(receive: dict[str, Any]) -> None:
    assert scales(after(wanted(shared=()), receive=receive, zero=True))["forward"] == "1"


def test_a_receive_without_room_has_proved_its_template_all_the_same() -> None:
    assert scales(after(wanted(shared=()), receive={"configuration": "False"}, zero=True))["forward"] == "0"


def test_an_upgrade_goes_to_receive_and_forward_keeps_what_it_has() -> None:
    before = wanted(BILLING, shared=())

    now = after(before, settings=UPGRADED)

    assert (image(now, "receive"), image(now, "forward")) == (NEW, IMAGE)
    pods = the(now, KSVC, "forward")["spec"]["template"]["spec"]
    # As it is, so that there is no other revision.
    assert pods["defaulted"] == "by the server"


def test_forward_follows_once_receive_has_been_ready_with_it() -> None:
    before = wanted(BILLING, shared=())
    upgraded = wanted(BILLING, shared=(), settings=UPGRADED)
    (receive,) = all_of(upgraded, KSVC, "receive")
    (forward,) = all_of(before, KSVC, "forward")
    shared, own = [as_it_is(receive)], [as_it_is(forward)]

    now = wanted(BILLING, observed=own, shared=shared, settings=UPGRADED, zero=True)

    assert (image(now, "forward"), begins_with(the(now, KSVC, "forward"))) == (NEW, "0")


def test_while_a_receive_of_the_new_template_can_not_start_forward_stays() -> None:
    before = wanted(BILLING, shared=())
    (receive,) = all_of(wanted(shared=(), settings=UPGRADED), KSVC, "receive")
    broken = as_it_is(receive, created="r-2", configuration="False")
    (forward,) = all_of(before, KSVC, "forward")

    now = wanted(BILLING, observed=[as_it_is(forward)], shared=[broken], settings=UPGRADED)

    assert (image(now, "receive"), image(now, "forward")) == (NEW, IMAGE)
    (said,) = now.conditions
    assert said.reason == "UpdateFailed"


def test_who_may_call_a_forward_it_is_told_also_while_it_keeps_its_template() -> None:
    from headrace.core.channel import children
    from headrace.core.installation.reconcile_settings import ReconcileSettings

    given = ReconcileSettings(image=NEW, functions_nats_url="nats://nats:4222")
    access = children.by_settings(
        given, lambda host: f"rotated {host.partition('.')[0]}", lambda namespace: f"rotated for {namespace}"
    )

    now = after(wanted(BILLING, shared=()), settings=UPGRADED, access=access)

    env = at(the(now, KSVC, "forward"), "spec/template/spec/containers/0/env")
    told = [one["value"] for one in env if one["name"] == "HEADRACE_CALLER_DIGEST"]
    assert len(told) == 1
    assert told[0].startswith("rotated forward-")
    assert {"name": "HEADRACE_DELIVERY_KEY", "value": "rotated for knative-eventing"} in env


def test_settings_are_a_template_too() -> None:
    now = after(wanted(BILLING, shared=()), settings={"functions_env": (("LOG_LEVEL", "debug"),)})

    names = [{one["name"] for one in at(one, "spec/template/spec/containers/0/env")} for one in all_of(now, KSVC)]
    assert sorted("LOG_LEVEL" in one for one in names) == [False, True]


def test_how_many_pods_and_for_how_long_is_no_other_template() -> None:
    annotations = {"headrace.dev/max-scale": "9"}

    now = after(wanted(BILLING, shared=()), annotations=annotations, of=entry("aaaa-1", delivery={"timeout": "PT3M"}))

    forward = the(now, KSVC, "forward")["spec"]["template"]
    assert forward["metadata"]["annotations"]["autoscaling.knative.dev/max-scale"] == "9"
    assert forward["spec"]["timeoutSeconds"] == 210


@pytest.mark.parametrize(
    ("begun", "zero", "scale"),
    [("0", True, "0"), ("1", True, "1"), ("0", False, "1"), ("0", None, "0"), ("1", None, "1")],
)
def test_what_is_there_keeps_the_number_that_it_began_with_where_the_cluster_lets_it(
    begun: str, zero: bool | None, scale: str
) -> None:
    """Another number would be another revision, for nothing."""
    first = wanted(BILLING, shared=()) if begun == "1" else after(wanted(shared=()), zero=True)

    assert scales(after(first, zero=zero))["forward"] == scale


def test_where_nobody_tells_what_the_cluster_allows_a_new_template_begins_with_a_pod() -> None:
    assert scales(after(wanted(shared=()), zero=None)) == {"receive": "1", "forward": "1"}


def test_where_nobody_tells_of_a_shared_receive_a_forward_follows_at_once() -> None:
    """An operator of before does not, and would else never see an upgrade through."""
    (forward,) = all_of(wanted(BILLING), KSVC, "forward")

    now = wanted(BILLING, observed=[as_it_is(forward)], settings=UPGRADED, zero=True)

    assert (image(now, "forward"), begins_with(the(now, KSVC, "forward"))) == (NEW, "1")


def test_of_a_mirror_whose_receive_only_refuses_both_prove_themselves() -> None:
    mirror = {"stream": {"config": {"mirror": {"name": "A"}}}}

    assert scales(wanted(BILLING, shared=(), zero=True, **mirror)) == {"receive": "1", "forward": "1"}


def test_a_forward_of_which_nobody_can_tell_what_it_has_gets_what_is_wanted() -> None:
    (forward,) = all_of(wanted(BILLING, shared=()), KSVC, "forward")
    damaged = {**as_it_is(forward), "spec": {"template": {"spec": {"containers": "none"}}}}

    now = wanted(BILLING, observed=[damaged], shared=(), settings=UPGRADED)

    assert image(now, "forward") == NEW


GIVEN_UP = 'Revision "r-1" failed with message: Initial scale was never achieved.'


def given_up(body: dict[str, Any], **revisions: str) -> dict[str, Any]:
    found = as_it_is(body, ready="", configuration="False", **revisions)
    for condition in found["status"]["conditions"]:
        condition["message"] = GIVEN_UP
    return found


def test_what_knative_has_given_up_for_want_of_room_is_tried_once_more() -> None:
    (receive,) = all_of(wanted(shared=()), KSVC, "receive")
    tries = []
    for created in ("r-1", "r-1", "r-2"):
        (receive,) = all_of(wanted(shared=[given_up(receive, created=created)]), KSVC, "receive")
        tries.append(receive["spec"]["template"]["metadata"]["annotations"].get(RETRY_ANNOTATION))
    starting = as_it_is(receive, ready="", created="r-3", configuration="Unknown")
    (receive,) = all_of(wanted(shared=[starting]), KSVC, "receive")

    assert tries == ["r-1", "r-1", "r-2"]
    assert receive["spec"]["template"]["metadata"]["annotations"][RETRY_ANNOTATION] == "r-2"


def test_what_has_failed_for_another_reason_is_not() -> None:
    (receive,) = all_of(wanted(shared=()), KSVC, "receive")
    failed = as_it_is(receive, ready="", configuration="False")

    (receive,) = all_of(wanted(shared=[failed]), KSVC, "receive")

    assert RETRY_ANNOTATION not in receive["spec"]["template"]["metadata"]["annotations"]

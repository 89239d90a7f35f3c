"""A namespace's bound of functions in the system namespace: a subscriber without room shares one, and is served."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.channel.guests import Guests
from headrace.core.installation.function_bounds import FunctionBounds
from tests.support.functions.channels import entry
from tests.support.functions.children import all_of, called, remaining, the, wanted

KSVC, DEPLOYMENT = "Service.serving.knative.dev/v1", "Deployment.apps/v1"
SYSTEM = "knative-eventing"
ENTRIES = [entry(f"{number:04d}-a", f"s{number}") for number in range(4)]
TWO = FunctionBounds(functions=2)
RUNTIMES = [pytest.param("knative", KSVC, id="knative"), pytest.param("deployment", DEPLOYMENT, id="deployment")]


def created(one: dict[str, Any], second: int) -> dict[str, Any]:
    return {**one, "metadata": {**one["metadata"], "creationTimestamp": f"2026-01-31T12:00:{second:02}Z"}}


@pytest.mark.parametrize(("runtime", "kind"), RUNTIMES)
def test_subscribers_beyond_the_bound_share_one_forward_of_their_namespace(runtime: str, kind: str) -> None:
    functions = wanted(*ENTRIES, settings={"runtime": runtime}, bounds=TWO, shared=())

    forwards = {one["metadata"]["name"]: one["metadata"]["labels"] for one in all_of(functions, kind, "forward")}
    (shared,) = (name for name, labels in forwards.items() if labels.get("headrace.dev/shared") == "true")
    assert len(forwards) == 3
    assert forwards[shared]["headrace.dev/tenant"] == "shop"
    urls = [one.url for one in functions.forwards.values()]
    assert [f"http://{shared}." in url for url in urls] == [False, False, True, True]
    assert [one.pulls for one in functions.forwards.values()] == [runtime == "deployment"] * 2 + [False] * 2
    assert len(functions.readiness) == 4


def test_the_condition_says_how_many_share_it_the_bound_and_who_lifts_it() -> None:
    functions = wanted(*ENTRIES, bounds=TWO)

    assert functions.beyond == (
        "one forward serves 2 subscribers: the channels of namespace shop may have 2 functions of their own in "
        "namespace knative-eventing, or an administrator opens it: functions: {most: …} in key tenants of ConfigMap "
        "config-ch-jetstream-defaults",
    )
    assert functions.crowded
    assert not wanted(*ENTRIES, bounds=FunctionBounds(functions=4)).crowded


def test_other_channels_of_the_namespace_count_and_the_older_ones_stay() -> None:
    alone = wanted(*ENTRIES[:2], bounds=TWO)
    forwards = all_of(alone, KSVC, "forward")
    there = [created(one, second) for second, one in enumerate(forwards)]
    names = [one["metadata"]["name"] for one in there]

    full = {SYSTEM: Guests(2, {names[1]: 1})}
    after = {
        one["metadata"]["name"] for one in all_of(wanted(*ENTRIES[:2], observed=there, bounds=TWO, guests=full), KSVC)
    }

    assert names[0] in after
    assert names[1] not in after


def test_two_namespaces_do_not_share_what_is_over() -> None:
    one, other = (wanted(*ENTRIES, namespace=name, bounds=TWO) for name in ("shop", "evil"))

    shared = [{each["metadata"]["name"] for each in all_of(functions, KSVC, "forward")} for functions in (one, other)]
    assert shared[0] & shared[1] == set()


def test_a_thousand_subscriptions_make_no_more_objects_than_the_bound() -> None:
    many = [entry(f"{number:04d}-a", f"s{number}") for number in range(1000)]
    for runtime, most in (("knative", 102), ("deployment", 205)):
        functions = wanted(*many, settings={"runtime": runtime}, annotations={"headrace.dev/max-scale": "100000"})

        assert len(functions.objects) == most
        assert len(functions.forwards) == 1000


def test_where_there_is_no_room_for_its_receive_a_channel_shares_it_and_gives_up_its_wishes() -> None:
    wishes = {"deploymentSpecTemplate": {"resources": {"limits": {"cpu": 1}}}}

    functions = wanted(*ENTRIES, bounds=FunctionBounds(functions=0), **wishes)

    assert the(functions, KSVC, "receive")["metadata"]["name"] == "headrace-receive"
    assert [one.partition(":")[0] for one in functions.beyond] == [
        "spec.deploymentSpecTemplate is not obeyed",
        "one forward serves 4 subscribers",
    ]


def test_in_its_own_namespace_a_channel_has_as_many_as_its_quota_lets_it() -> None:
    functions = wanted(
        *ENTRIES, annotations={"eventing.knative.dev/scope": "namespace"}, bounds=FunctionBounds(functions=0)
    )

    assert len(all_of(functions, KSVC, "forward")) == 4
    assert functions.beyond == ()


def test_a_channel_that_makes_no_sense_any_more_or_is_not_reached_keeps_the_forward_that_it_shares() -> None:
    before = wanted(*ENTRIES, bounds=TWO)
    own = [one for one in before.objects if "headrace.dev/shared" not in one["metadata"]["labels"]]
    shared = [one for one in before.objects if one not in own]

    unreached = wanted(*ENTRIES, observed=own, shared=shared, bounds=TWO, reached=False)

    assert called(unreached) == called(before)
    after = remaining(own, *ENTRIES, shared=shared)
    assert called(after) == called(before)
    assert dict(after.forwards) == dict(before.forwards)

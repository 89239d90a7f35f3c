"""A call of the hook that is damaged anywhere is answered: never with a 500, and by the rule of who wrote what.

Parts that we have written ourselves (the status, the children) count where they are legible, and are written anew; a
fault in parts that decide (spec and metadata) is told by its field.
"""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core import caller_token
from headrace.core.channel import hook
from headrace.core.errors import HeadraceError, Refused, Unavailable
from headrace.core.http import json_response
from headrace.core.installation.reconcile_settings import ReconcileSettings
from headrace.core.installation.secret_names import SecretNames
from headrace.io import web
from headrace.reconcile import VERBS, Around, reconcile
from tests.support.functions.channels import channel, entry
from tests.support.functions.children import IMAGE, as_observed
from tests.support.nats.fake_nats import FakeNats
from tests.unit.core.channel.test_hook_hostile_json import changed, places, values

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
SUBSCRIPTIONS = "Subscription.messaging.knative.dev/v1"
KINDS = {
    "an ordinary channel": {},
    "a channel with credentials of its own": {"connection": {"secretRef": {"name": "theirs"}}},
}


class FakeElsewhere(FakeNats):
    """The NATS of a channel's own `reconcile`."""

    async def named(self) -> SecretNames:
        return SecretNames()


class SilentElsewhere(FakeNats):
    """A `reconcile` of a channel that is not there."""

    async def named(self) -> SecretNames:
        raise Unavailable("nobody answers")


async def answered(verb: str, body: bytes, *, elsewhere: type[FakeNats] = FakeElsewhere) -> dict[str, Any]:
    """The answer of one call, to an empty NATS."""
    settings = ReconcileSettings(image=IMAGE, runtime="knative", functions_nats_url="nats://nats:4222")
    around = Around(digests=caller_token.digests(b"token"), elsewhere=lambda _: elsewhere())
    return await reconcile(verb, body, api=FakeNats(), settings=settings, now=NOON, around=around)


def status_of(verb: str, request: Any, elsewhere: type[FakeNats]) -> tuple[int, dict[str, Any]]:
    """What a caller over HTTP gets."""
    body = json.dumps(request).encode(errors="surrogatepass")
    try:
        answer = json_response(200, asyncio.run(answered(verb, body, elsewhere=elsewhere)))
    except HeadraceError as error:
        answer = web.response_of(error)
    return answer.status, json.loads(answer.body, parse_constant=pytest.fail)


def good(**spec: Any) -> dict[str, Any]:
    """A call as it comes once the channel is Ready, with all that may be in one."""
    uid = "aaaa-1"
    sink = {"ref": {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "name": "letters"}}
    parent = channel(
        entry(uid=uid, delivery={"retry": 3, "backoffDelay": "PT1S"}),
        delivery={"deadLetterSink": sink, "timeout": "PT10S"},
        annotations={"headrace.dev/max-scale": "3"},
        stream={"config": {"maxAge": "1h", "sources": [{"name": "A", "optStartTime": "2026-01-01T00:00:00Z"}]}},
        consumerConfigTemplate={"rateLimitBPS": 5},
        **spec,
    )
    subscription = {
        "metadata": {"uid": uid, "namespace": "shop", "name": "billing", "annotations": {"a": "b"}},
        "spec": {"channel": {"name": "orders"}},
    }
    letters = {
        "metadata": {"namespace": "shop", "name": "letters"},
        "status": {"address": {"url": "http://letters/", "CACerts": "PEM"}},
    }
    request: dict[str, Any] = {
        "controller": {},
        "parent": parent,
        "children": {},
        "related": {SUBSCRIPTIONS: {"billing": subscription}, "Service.serving.knative.dev/v1": {"letters": letters}},
        "finalizing": False,
        "headrace": {"complete": [SUBSCRIPTIONS], "absent": ["x"], "apis": ["serving.knative.dev/v1"]},
    }
    answer = asyncio.run(answered("sync", json.dumps(request).encode()))
    conditions = [{"type": kind, "status": "True"} for kind in ("Available", "Ready", "ConfigurationsReady")]
    revisions = {"latestReadyRevisionName": "r-1", "latestCreatedRevisionName": "r-1"}
    well = {"conditions": conditions, "observedGeneration": 1, **revisions}
    made = [{**one, "metadata": {**one["metadata"], "generation": 1}, "status": well} for one in answer["children"]]
    return {**request, "parent": {**parent, "status": answer["status"]}, "children": as_observed(made)}


CALLS = {name: good(**spec) for name, spec in KINDS.items()}


@pytest.mark.parametrize("verb", VERBS)
@given(data=st.data())
def test_a_call_that_is_damaged_anywhere_is_answered(verb: str, data: st.DataObject) -> None:
    call = CALLS[data.draw(st.sampled_from(sorted(CALLS)))]
    elsewhere = data.draw(st.sampled_from([FakeElsewhere, SilentElsewhere]))
    damaged = changed(call, data.draw(st.sampled_from(places(call))), data.draw(values))
    status, answer = status_of(verb, damaged, elsewhere)
    assert status in (200, 400), answer
    if status == 400:
        assert answer["detail"].startswith("body"), answer


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("damage", [None, "", [None], 2**63])
@pytest.mark.parametrize("of", ["status", "children"])
def test_what_is_damaged_of_our_own_writing_is_written_anew(name: str, damage: Any, of: str) -> None:
    call = CALLS[name]
    whole = status_of("sync", call, FakeElsewhere)
    path = ("parent", "status") if of == "status" else ("children",)
    for place in places(call):
        # What an object of the cluster is like below its spec is the API server's to judge.
        if place[: len(path)] == path and place != ("children",) and "spec" not in place:
            status, answer = status_of("sync", changed(call, place, damage), FakeElsewhere)
            assert (status, wanted(answer, of)) == (whole[0], wanted(whole[1], of)), place


def wanted(answer: dict[str, Any], of: str) -> tuple[Any, ...]:
    """What is wanted, without the moments and without what is only told of the children, where they are damaged."""
    of_children = ("subscribers", "readySubscribers", "Ready", "FunctionsReady") if of == "children" else ()
    without = ("countedAt", "conditions", *of_children)
    status = {key: value for key, value in answer["status"].items() if key not in without}
    conditions = {one["type"]: one for one in answer["status"]["conditions"] if one["type"] not in without}
    told = {kind: (one["status"], one.get("reason")) for kind, one in conditions.items()}
    return status, told, answer["children"]


def test_a_child_that_is_damaged_counts_as_one_that_is_not_there() -> None:
    call = CALLS["an ordinary channel"]
    kind = "Service.serving.knative.dev/v1"
    name = next(one for one in call["children"][kind] if "forward" in one)
    _, answer = status_of("sync", changed(call, ("children", kind, name, "metadata"), [name]), FakeElsewhere)
    functions = next(one for one in answer["status"]["conditions"] if one["type"] == "FunctionsReady")
    assert (functions["reason"], name.partition("/")[2] in functions["message"]) == ("FunctionsStarting", True)


@pytest.mark.parametrize(
    ("path", "damage", "says"),
    [
        (("metadata",), [], "body.parent.metadata is not an object"),
        (("metadata", "name"), None, "body.parent.metadata.name is 'None'"),
        (("metadata", "namespace"), {"shop": 1}, "body.parent.metadata.namespace is "),
        ((), [], "body.parent is not an object"),
    ],
)
def test_what_names_the_channel_is_refused_by_its_field(path: tuple[str, ...], damage: Any, says: str) -> None:
    status, answer = status_of("sync", changed(CALLS["an ordinary channel"], ("parent", *path), damage), FakeElsewhere)
    assert (status, answer["detail"][: len(says)]) == (400, says)


@pytest.mark.parametrize(
    ("path", "damage", "says"),
    [
        (("metadata", "annotations"), ["x"], "metadata.annotations is a list: it should be an object"),
        (("metadata", "annotations", "headrace.dev/max-scale"), 3, "metadata.annotations[headrace.dev/max-scale] is 3"),
        (("metadata", "uid"), 7, "metadata.uid is 7: it should be text"),
        (("spec",), ["x"], "spec is a list: it should be an object"),
        (("spec", "stream", "config", "maxAge"), 10**30, f"spec.stream.config.maxAge is {10**30}"),
        (("spec", "subscribers"), {"a": 1}, "spec.subscribers is an object: it should be a list"),
    ],
)
def test_what_decides_is_told_of_by_its_field(path: tuple[str, ...], damage: Any, says: str) -> None:
    status, answer = status_of("sync", changed(CALLS["an ordinary channel"], ("parent", *path), damage), FakeElsewhere)
    ready = next(one for one in answer["status"]["conditions"] if one["type"] == "Ready")
    assert (status, ready["reason"], ready["message"][: len(says)]) == (200, "InvalidSpec", says)


@pytest.mark.parametrize("filling", [b"[],", b"{},", b'{"a":1},'])
def test_a_body_that_would_fill_the_memory_is_refused_before_it_is_parsed(filling: bytes) -> None:
    many = filling * (hook.MOST_VALUES // 2)
    body = b'{"parent": {}, "related": {"x": {"y": [' + many.removesuffix(b",") + b"]}}}"
    tracemalloc.start()
    try:
        with pytest.raises(Refused, match=f"more than {hook.MOST_VALUES} values"):
            asyncio.run(answered("sync", body))
        assert tracemalloc.get_traced_memory()[1] < 1024 * 1024
    finally:
        tracemalloc.stop()


def test_a_channel_with_as_many_subscribers_as_fit_into_one_is_answered_with_all_its_objects() -> None:
    """With as much again of everything as we want: what the API server adds to it."""
    call = CALLS["an ordinary channel"]
    group = call["children"]["Service.serving.knative.dev/v1"]
    one = next(body for name, body in group.items() if "forward" in name)
    values = sum(map(json.dumps(one).encode().count, (b",", b"[", b"{")))
    assert values * 2 * 3000 < hook.MOST_VALUES

"""The story of `reconcile`: its order, and its answers when the server refuses or forgets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from headrace.core.errors import InvalidSpec, NotLetIn, Unavailable
from headrace.core.installation.reconcile_settings import ReconcileSettings
from headrace.core.nats.action import (
    Action,
    CreateConsumer,
    CreateStream,
    DeleteConsumer,
    DeleteStream,
    Done,
    KeepText,
    Outcome,
    PurgeSubjects,
    Rejected,
    ResetConsumer,
)
from headrace.core.raw_config import Config
from headrace.reconcile import VERBS, Around, reconcile
from tests.support.functions.channels import channel, entry
from tests.support.nats.fake_nats import FakeNats, FakeTenant

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
STREAM, ASIDE = "KN_SHOP__ORDERS", "KN_SHOP__ORDERS_aside"


async def call(verb: str, parent: Mapping[str, Any], nats: FakeNats) -> dict[str, Any]:
    body = json.dumps({"parent": parent, "finalizing": verb == "finalize"}).encode()
    return await reconcile(verb, body, api=nats, settings=ReconcileSettings(), now=NOON)


def reasons(answer: Mapping[str, Any]) -> dict[str, str]:
    return {one["type"]: one.get("reason", one["status"]) for one in answer["status"]["conditions"]}


async def test_streams_are_made_before_consumers_and_the_stream_before_its_aside() -> None:
    nats = FakeNats()

    await call("sync", channel(entry()), nats)

    made = [action.config["name"] for action in nats.actions if isinstance(action, CreateStream | CreateConsumer)]
    assert made == [STREAM, ASIDE, "KN_SUB_AAAA1"]


async def test_consumers_go_before_their_stream_and_the_aside_goes_last() -> None:
    nats = FakeNats()
    await call("sync", channel(entry()), nats)
    nats.actions.clear()

    answer = await call("finalize", channel(entry()), nats)

    assert nats.actions == [DeleteConsumer(STREAM, "KN_SUB_AAAA1"), DeleteStream(STREAM), DeleteStream(ASIDE)]
    assert answer["finalized"] is True


async def test_a_server_that_forgets_metadata_is_too_old() -> None:
    def forget(action: Action) -> Outcome | None:
        return Done({**action.config, "metadata": {}}) if isinstance(action, CreateStream) else None

    nats = FakeNats(forget)

    answer = await call("sync", channel(entry()), nats)

    assert len(nats.actions) == 1
    assert reasons(answer)["StreamReady"] == "NatsTooOld"
    assert reasons(answer)["Ready"] == "NatsTooOld"
    assert answer["status"]["subscribers"][0]["ready"] == "False"


async def test_without_an_aside_stream_no_consumer_is_made() -> None:
    def full(action: Action) -> Outcome | None:
        created_aside = isinstance(action, CreateStream) and action.config["name"] == ASIDE
        return Rejected("insufficient storage resources available") if created_aside else None

    nats = FakeNats(full)

    answer = await call("sync", channel(entry()), nats)

    assert not nats.bound
    assert reasons(answer)["StreamReady"] == "StreamCreateRefused"
    assert reasons(answer)["ConsumersReady"] == "StreamNotReady"


async def test_only_so_many_lost_events_are_forgotten_at_once_and_just_those_are_counted() -> None:
    nats = FakeNats()
    await call("sync", channel(entry()), nats)
    below = "shop.orders._knative_aside.stage.KN_SUB_AAAA1"
    nats.noted = [f"{below}.{sequence}" for sequence in range(1, 251)]
    nats.first = 1000
    nats.actions.clear()

    await call("sync", channel(entry()), nats)

    forgotten = [action.subjects for action in nats.actions if isinstance(action, PurgeSubjects)]
    assert [one for one in forgotten if not one.endswith(".stuck")] == [f"{below}.{n}" for n in range(1, 201)]
    assert nats.numbers == {f"{below}.discarded.total": 200}


async def test_a_channel_in_an_account_of_its_own_is_looked_at_every_minute_since_nobody_tells_of_it() -> None:
    body = json.dumps({"parent": channel(entry(), connection={"secretRef": {"name": "orders-nats"}})}).encode()
    settings = ReconcileSettings(image="headrace:1")
    tenant = FakeTenant()

    answer = await reconcile(
        "sync", body, api=FakeNats(), settings=settings, now=NOON, around=Around(elsewhere=lambda _: tenant)
    )

    assert set(tenant.streams) == {STREAM, ASIDE}
    assert answer["resyncAfterSeconds"] == 60.0


@pytest.mark.parametrize("refused", [DeleteConsumer, DeleteStream])
async def test_a_removal_that_the_server_refuses_keeps_the_channel(refused: type[Action]) -> None:
    nats = FakeNats(lambda action: Rejected("not now") if isinstance(action, refused) else None)
    made = await call("sync", channel(entry()), nats)

    answer = await call("finalize", channel(entry(), status=made["status"]), nats)

    assert answer["finalized"] is False
    assert answer["resyncAfterSeconds"] == 30
    assert reasons(answer)["Ready"] == "RemovalRefused"
    assert "not now" in answer["status"]["conditions"][0]["message"]
    assert answer["status"]["subscribers"] == made["status"]["subscribers"]


async def test_nats_that_is_away_is_not_a_condition() -> None:
    class Away(FakeNats):
        async def stream(self, _name: str) -> Config | None:
            raise Unavailable("NATS is not reachable within 5.0 s")

    for verb in ("sync", "finalize"):
        with pytest.raises(Unavailable):
            await call(verb, channel(entry()), Away())


async def test_sync_while_finalizing_finalizes() -> None:
    nats = FakeNats()
    await call("sync", channel(entry()), nats)
    body = json.dumps({"parent": channel(entry()), "finalizing": True}).encode()

    answer = await reconcile("sync", body, api=nats, settings=ReconcileSettings(), now=NOON)

    assert answer["finalized"] is True
    assert not nats.streams


async def test_customize_asks_for_all_subscriptions_and_for_what_knative_says_of_security() -> None:
    subscriptions = {
        "apiVersion": "messaging.knative.dev/v1",
        "resource": "subscriptions",
        "headrace": {"concerning": "parent"},
    }
    optional = {"headrace": {"optional": True}}
    features = {"apiVersion": "v1", "resource": "configmaps", "namespace": "knative-eventing", **optional}
    policies = {"apiVersion": "eventing.knative.dev/v1alpha1", "resource": "eventpolicies", "namespace": "shop"}

    assert await call("customize", channel(entry()), FakeNats()) == {
        "relatedResources": [
            subscriptions,
            {**features, "names": ["config-features"]},
            {**features, "resource": "secrets", "names": ["headrace-receive-plain-tls"]},
            {**policies, **optional},
        ],
        "headrace": {
            "annotations": {"messaging.knative.dev/subscribable": "v1"},
            "systemNamespace": "knative-eventing",
        },
    }


@pytest.mark.parametrize(
    ("ready", "reason", "listed", "part"),
    [
        pytest.param("True", "True", ["ep"], {"policies": [{"name": "ep", "from": ["till"]}]}, id="ready"),
        pytest.param("False", "EventPoliciesNotReady", None, None, id="not ready"),
    ],
)
async def test_policies_are_in_the_status_and_in_the_channels_part_of_the_document(
    ready: str, reason: str, listed: list[str] | None, part: Any
) -> None:
    policy = {
        "metadata": {"namespace": "shop", "name": "ep"},
        "status": {"from": ["till"], "conditions": [{"type": "Ready", "status": ready}]},
    }
    features = {"namespace": "knative-eventing", "name": "config-features"}
    related = {
        "ConfigMap.v1": {"x": {"metadata": features, "data": {"authentication-oidc": "enabled"}}},
        "EventPolicy.eventing.knative.dev/v1alpha1": {"ep": policy},
    }
    request = {"parent": channel(entry()), "related": related, "headrace": {"complete": []}}

    answer = await reconcile(
        "sync", json.dumps(request).encode(), api=FakeNats(), settings=ReconcileSettings(), now=NOON
    )

    assert reasons(answer)["EventPoliciesReady"] == reason
    assert reasons(answer)["Ready"] == reason
    assert [one["name"] for one in answer["status"].get("policies", ())] == (listed or [])
    assert answer["headrace"]["security"] == part or "unreadable" in answer["headrace"]["security"]


async def test_the_answer_has_metacontrollers_form() -> None:
    answer = await call("sync", channel(entry()), FakeNats())

    assert answer.keys() == {"status", "children", "resyncAfterSeconds", "headrace"}
    assert answer["headrace"] == {"leasePlaces": {"stream": STREAM, "receive": "", "forwards": {}}}
    assert (answer["children"], answer["resyncAfterSeconds"]) == ([], 0)
    assert json.loads(json.dumps(answer)) == answer


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"{", id="half of an object"),
        pytest.param(b"\xff", id="bytes that are not text"),
        pytest.param(b"[" * 100_000, id="nesting without end"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b"{}", id="no parent"),
        pytest.param(b'{"parent": null}', id="a null parent"),
        pytest.param(b'{"parent": {}}', id="a parent without metadata"),
        pytest.param(b'{"parent": {"metadata": {"name": "orders"}}}', id="a parent without a namespace"),
        pytest.param(b'{"parent": {"metadata": {"name": 1, "namespace": "shop"}}}', id="a name that is a number"),
        pytest.param(b'{"parent": {"kind": "Pod", "metadata": {"name": "a", "namespace": "b"}}}', id="another kind"),
    ],
)
@pytest.mark.parametrize("verb", VERBS)
async def test_what_is_not_the_hooks_form_is_refused(verb: str, body: bytes) -> None:
    nats = FakeNats()

    with pytest.raises(InvalidSpec) as refused:
        await reconcile(verb, body, api=nats, settings=ReconcileSettings(), now=NOON)

    assert refused.value.field == "body"
    assert not nats.actions


async def test_an_unknown_verb_is_refused() -> None:
    with pytest.raises(InvalidSpec) as refused:
        await call("destroy", channel(), FakeNats())

    assert refused.value.field == "verb"


@pytest.mark.parametrize(
    "parent",
    [
        pytest.param(channel(name="Orders"), id="a name that Kubernetes would not have"),
        pytest.param(channel(stream={"overrideName": "a.b"}), id="a stream that NATS would not have"),
    ],
)
async def test_a_channel_that_never_had_anything_may_go(parent: Mapping[str, Any]) -> None:
    nats = FakeNats()

    answer = await call("finalize", parent, nats)

    assert answer["finalized"] is True
    assert not nats.actions


class LockedOut(FakeNats):
    """A server that does not let us in."""

    async def stream(self, _name: str) -> Config | None:
        raise NotLetIn("NATS does not let us in: Authorization Violation")


async def test_refused_credentials_are_a_condition_while_the_channel_is_wanted() -> None:
    answer = await call("sync", channel(entry()), LockedOut())

    assert reasons(answer)["Ready"] == "CredentialsRefused"
    assert answer["resyncAfterSeconds"] > 0


async def test_a_channel_that_is_deleted_waits_for_credentials_and_goes_without_them_in_the_end() -> None:
    waiting = await call("finalize", channel(), LockedOut())
    for condition in waiting["status"]["conditions"]:
        condition["lastTransitionTime"] = "2026-01-31T11:50:00Z"
    gone = await call("finalize", channel(status=waiting["status"]), LockedOut())

    assert (waiting["finalized"], gone["finalized"]) == (False, True)
    assert "headrace" not in waiting
    assert [event["reason"] for event in gone["headrace"]["events"]] == ["StreamOrphaned"]


@pytest.mark.parametrize(("grown", "told"), [(False, True), (True, False)], ids=["it stays so", "the stream has grown"])
async def test_a_consumer_ahead_of_its_stream_is_told_unless_the_stream_was_only_looked_at_too_early(
    monkeypatch: pytest.MonkeyPatch, *, grown: bool, told: bool
) -> None:
    nats, asked = FakeNats(), []
    await call("sync", channel(entry()), nats)
    delivered = {"consumer_seq": 9, "stream_seq": 9}
    look, list_them = nats.info, nats.consumer_infos

    async def info(stream: str, subjects: str = "") -> Mapping[str, Any] | None:
        found = await look(stream, subjects)
        asked.append(stream)
        last = 9 if grown and asked.count(STREAM) > 1 else 5
        return found and {**found, "state": {**found["state"], "last_seq": last}}

    async def infos(stream: str) -> list[Mapping[str, Any]]:
        return [{**one, "delivered": delivered} for one in await list_them(stream)]

    monkeypatch.setattr(nats, "info", info)
    monkeypatch.setattr(nats, "consumer_infos", infos)

    answer = await call("sync", channel(entry()), nats)

    assert ("PositionsKept" in reasons(answer)) is told
    assert any(isinstance(action, KeepText) for action in nats.actions) is told


class Forgetful(FakeNats):
    """A stream that ends at 5, with consumers that stand at 9."""

    async def info(self, stream: str, _subjects: str = "") -> Mapping[str, Any] | None:
        found = await super().info(stream, _subjects)
        return found and {**found, "state": {**found["state"], "last_seq": 5}}

    async def consumer_infos(self, stream: str) -> list[Mapping[str, Any]]:
        stands = {"delivered": {"consumer_seq": 9, "stream_seq": 9}, "ack_floor": {"stream_seq": 7}}
        return [{**one, **stands} for one in await super().consumer_infos(stream)]


@pytest.mark.parametrize(("mark", "moved"), [((9, 30), True), ((9, 10), False), ((8, 30), False), ((9, -5), False)])
async def test_a_consumer_is_put_back_when_it_stands_where_it_stood_a_while_ago(
    mark: tuple[float, float], *, moved: bool
) -> None:
    nats = Forgetful()
    await call("sync", channel(entry()), nats)
    of, ago = mark
    subject = "shop.orders._knative_aside.stage.KN_SUB_AAAA1.position.ahead"
    nats.texts[subject] = json.dumps({"of": of, "at": NOON.timestamp() - ago})
    nats.noted = [
        subject,
        "shop.orders._knative_aside.stage.KN_SUB_AAAA1.4",
        f"{subject[:-14]}8",
        f"{subject[:-14]}8.stuck",
    ]
    nats.actions.clear()

    answer = await call("sync", channel(entry()), nats)

    assert (ResetConsumer(STREAM, "KN_SUB_AAAA1", 6) in nats.actions) is moved
    purged = {action.subjects.partition("AAAA1.")[2] for action in nats.actions if isinstance(action, PurgeSubjects)}
    # The records of lost events go, whose sequences new events get; that of an event which is there stays.
    assert purged == ({"8", "8.stuck", "position.ahead"} if moved else set())
    assert ("PositionsKept" in reasons(answer)) is not moved


async def test_a_server_that_puts_nothing_back_is_told_of_on() -> None:
    nats = Forgetful(lambda action: Rejected("not allowed") if isinstance(action, ResetConsumer) else None)
    await call("sync", channel(entry()), nats)
    subject = "shop.orders._knative_aside.stage.KN_SUB_AAAA1.position.ahead"
    nats.texts[subject] = json.dumps({"of": 9, "at": NOON.timestamp() - 30})

    assert reasons(await call("sync", channel(entry()), nats))["PositionsKept"] == "PositionAhead"


@pytest.mark.parametrize(("since", "moved"), [(9, True), (10, False)], ids=["it was passed by", "it was not"])
async def test_a_consumer_that_its_stream_has_outgrown_is_put_back_if_new_events_lie_where_it_had_been(
    since: int, *, moved: bool
) -> None:
    nats = FakeNats()
    await call("sync", channel(entry()), nats)
    nats.noted, nats.since = ["shop.orders._knative_aside.stage.KN_SUB_AAAA1.position.ahead"], since
    nats.texts[nats.noted[0]] = json.dumps({"of": 9, "at": NOON.timestamp() - 30})
    nats.actions.clear()

    await call("sync", channel(entry()), nats)

    assert any(isinstance(action, ResetConsumer) for action in nats.actions) is moved
    assert PurgeSubjects(ASIDE, nats.noted[0]) in nats.actions


async def test_consumers_of_others_are_left_where_they_stand() -> None:
    nats = Forgetful()
    await call("sync", channel(entry()), nats)
    nats.bound["THEIRS"] = {"name": "THEIRS", "durable_name": "THEIRS"}

    await call("sync", channel(entry()), nats)

    assert not any("THEIRS" in str(action) for action in nats.actions)

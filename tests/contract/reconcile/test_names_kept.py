"""Names that a tenant's channel has from before the rule about names: they stay, are told, and never become more."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.io.jetstream.api import JetStreamApi
from tests.support.functions.channels import channel, entry
from tests.support.functions.reconciling import Hook, condition
from tests.support.functions.trespassing import EVIL, OWN_SUBJECT, consumer, evil, listed

pytest_plugins = ["tests.support.functions.two_namespaces"]


async def yesterday(strict: Hook, *entries: dict[str, Any], **stream: Any) -> dict[str, Any]:
    """The channel as a version without the rule made it."""
    parent = channel(*entries, namespace="evil", name="a", stream=stream)
    answer = await Hook(strict.connection, names="any").sync(parent)
    assert condition(answer, "Ready")["status"] == "True", answer["status"]
    return parent


KEPT: dict[str, dict[str, Any]] = {
    "a subject": {"additionalSubjects": ["legacy.new.eu.*"]},
    "a copy": {"republish": {"source": OWN_SUBJECT, "destination": "headrace.wake.OTHER"}},
    "a source": {"sources": [{"name": "ORDERS", "filterSubject": "legacy.orders.eu"}]},
    "a mirror": {"mirror": {"name": "ORDERS"}},
    "a transform": {"subjectTransform": {"source": "evil.x", "destination": "legacy.{{partition(2)}}"}},
}


@pytest.mark.parametrize("config", KEPT.values(), ids=KEPT)
async def test_a_channel_from_before_the_rule_keeps_what_it_has(strict: Hook, config: dict[str, Any]) -> None:
    parent = await yesterday(strict, entry("bbbb-2"), config=config)
    was = await strict.stream(EVIL)

    answer = await strict.sync(parent)
    newcomer = await strict.sync(evil(entry("bbbb-2"), entry("cccc-3", "audit"), **config))

    assert strict.changes == ["STREAM.PURGE.KN_EVIL__A_aside", "CONSUMER.CREATE.KN_EVIL__A.KN_SUB_CCCC3"]
    assert await strict.stream(EVIL) == was
    for told in (answer, newcomer):
        assert condition(told, "Ready")["status"] == "True"
        assert told["resyncAfterSeconds"] == (30.1 if "republish" in config else 300.1)
        kept = condition(told, "NamesAllowed")
        assert (kept["status"], kept["severity"], kept["reason"]) == ("False", "Info", "NameKept")
        assert '- {namespaces: ["evil"], ' in kept["message"]


WIDER: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "one more subject": (KEPT["a subject"], {"additionalSubjects": ["legacy.new.eu.*", "legacy.more.eu.*"]}),
    "another destination": (KEPT["a copy"], {"republish": {"source": OWN_SUBJECT, "destination": "headrace.wake.X"}}),
    "with the data": (
        {"republish": {"source": OWN_SUBJECT, "destination": "_INBOX_x.a", "headersOnly": True}},
        {"republish": {"source": OWN_SUBJECT, "destination": "_INBOX_x.a"}},
    ),
    "all of a source": (KEPT["a source"], {"sources": [{"name": "ORDERS"}]}),
    "without its transform": (
        {"sources": [{"name": "ORDERS", "subjectTransforms": [{"source": "legacy.orders.eu", "destination": "x"}]}]},
        {"sources": [{"name": "ORDERS"}]},
    ),
    "answers for the origin": (KEPT["a mirror"], {**KEPT["a mirror"], "mirrorDirect": True}),
}


@pytest.mark.parametrize(("before", "wider"), WIDER.values(), ids=WIDER)
async def test_what_is_kept_is_not_widened(strict: Hook, before: dict[str, Any], wider: dict[str, Any]) -> None:
    await yesterday(strict, config=before)
    was = await strict.stream(EVIL)

    await strict.sync(evil(generation=2, **wider))

    assert await strict.stream(EVIL) == was


async def test_what_is_taken_out_goes_and_does_not_come_again(strict: Hook) -> None:
    await yesterday(strict, config=KEPT["a subject"])

    cleared = await strict.sync(evil(generation=2))
    again = await strict.sync(evil(generation=3, **KEPT["a subject"]))

    assert condition(cleared, "Ready")["status"] == "True"
    assert condition(again, "Ready")["reason"] == "NameRefused"
    assert (await strict.stream(EVIL) or {})["subjects"] == ["evil.a._knative"]


@pytest.mark.parametrize("subjects", [["legacy.orders.>"], ["legacy.orders.eu.>", "evil.*._knative"]])
async def test_a_stream_that_is_adopted_already_is_kept_with_what_its_consumers_see(
    strict: Hook, admin: JetStreamApi, subjects: list[str]
) -> None:
    await admin.call("STREAM.DELETE.ORDERS")
    await admin.call("STREAM.CREATE.ORDERS", {"name": "ORDERS", "subjects": subjects, "storage": "file"})
    theirs = {"overrideName": "ORDERS", "config": {"additionalSubjects": ["legacy.orders.eu.*"]}}
    parent = await yesterday(strict, entry("bbbb-2"), **theirs)
    wider = {"overrideName": "ORDERS", "config": {"additionalSubjects": ["legacy.orders.eu.*", "legacy.orders.us.>"]}}

    kept = await strict.sync(parent)
    newcomer = await strict.sync(
        channel(entry("bbbb-2"), entry("cccc-3", "audit"), namespace="evil", name="a", stream=wider)
    )

    assert (condition(kept, "Ready")["status"], condition(kept, "NamesAllowed")["reason"]) == ("True", "NameKept")
    assert condition(newcomer, "Ready")["reason"] == "NameRefused"
    assert "spec.stream.config.additionalSubjects[1] is 'legacy.orders.us.>'" in condition(newcomer, "Ready")["message"]
    for durable in ("KN_SUB_BBBB2", "KN_SUB_CCCC3"):
        sees = await consumer(admin, "ORDERS", durable)
        assert sees["filter_subjects"] == ["evil.a._knative", "legacy.orders.eu.*"]


async def test_a_filter_brings_nothing_that_is_not_opened(strict: Hook, admin: JetStreamApi) -> None:
    listed(strict, {"namespaces": ["evil"], "streams": ["ORDERS"], "subjects": ["legacy.orders.eu.*"]})
    template = {"filterSubjects": ["legacy.orders.eu.*", "legacy.orders.>"]}
    parent = channel(
        entry("bbbb-2"),
        namespace="evil",
        name="a",
        stream={"overrideName": "ORDERS"},
        consumerConfigTemplate=template,
    )

    answer = await strict.sync(parent)

    assert condition(answer, "Ready")["message"].startswith("spec.consumerConfigTemplate.filterSubjects[1] is ")
    sees = await consumer(admin, "ORDERS", "KN_SUB_BBBB2")
    assert sees["filter_subject"] == "legacy.orders.eu.*"


async def test_a_channel_of_the_go_implementation_that_is_taken_over_keeps_what_it_has(
    strict: Hook, admin: JetStreamApi
) -> None:
    subjects = ["evil.a._knative", "legacy.new.eu.*"]
    await admin.call(f"STREAM.CREATE.{EVIL}", {"name": EVIL, "subjects": subjects, "storage": "file"})
    await admin.call("STREAM.UPDATE.ORDERS", {"name": "ORDERS", "subjects": ["legacy.orders.>", "evil.b._knative"]})
    push = {"deliver_subject": "evil.b._knative_consumer.bbbb2", "deliver_group": "KN_SUB_BBBB2"}
    theirs = {"durable_name": "KN_SUB_BBBB2", "name": "KN_SUB_BBBB2", "ack_policy": "explicit", **push}
    await admin.call("CONSUMER.CREATE.ORDERS.KN_SUB_BBBB2", {"stream_name": "ORDERS", "config": theirs})
    adopted = {"overrideName": "ORDERS", "config": {"additionalSubjects": ["legacy.orders.>"]}}

    named = await strict.sync(evil(**KEPT["a subject"]))
    again = await strict.sync(evil(**KEPT["a subject"]))
    other = await strict.sync(channel(entry("bbbb-2"), namespace="evil", name="b", stream=adopted))

    assert (await strict.stream(EVIL) or {})["subjects"] == subjects
    for answer in (named, again, other):
        assert (condition(answer, "Ready")["status"], condition(answer, "NamesAllowed")["severity"]) == ("True", "Info")
    assert "spec.stream.overrideName is 'ORDERS'" in condition(other, "NamesAllowed")["message"]

"""Names in a tenant's manifest: attacks by a channel of one namespace on another's, under `accounts.conf`.

The victim is compared as a whole: its streams, with what they hold, and its consumers.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest

from headrace.core.errors import Refused, Unavailable
from headrace.core.installation import channel_defaults, tenants
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.nats.client import Client
from headrace.reconcile import Around
from tests.support.functions.channels import channel, entry, stream
from tests.support.functions.reconciling import Hook, condition
from tests.support.functions.trespassing import (
    EVIL,
    OWN_SUBJECT,
    VICTIM,
    VICTIMS_CONSUMER,
    consumer,
    everything,
    evil,
    listed,
    post,
)

pytest_plugins = ["tests.support.functions.two_namespaces"]

REWRITE = f"$JS.API.CONSUMER.CREATE.{VICTIM}.{VICTIMS_CONSUMER}"
ATTACKS: dict[str, dict[str, Any]] = {
    "a stream is deleted": {"republish": {"source": OWN_SUBJECT, "destination": f"$JS.API.STREAM.DELETE.{VICTIM}"}},
    "a consumer is rewritten": {"republish": {"source": OWN_SUBJECT, "destination": REWRITE}},
    "events are put in": {"republish": {"source": OWN_SUBJECT, "destination": "victim.x._knative"}},
    "events are put in by a mapping": {"republish": {"source": "*.*.*", "destination": "victim.x.{{wildcard(3)}}"}},
    "events are put in by a mapping with a sign": {
        "republish": {"source": "*.*.*", "destination": "evil.$+2._knative"}
    },
    "a mapping with functions": {
        "republish": {"source": "*.*.*", "destination": "{{split(1,-)}}.{{wildcard(2)}}.{{wildcard(3)}}"}
    },
    "stage records are put in": {
        "republish": {"source": OWN_SUBJECT, "destination": "victim.x._knative_aside.stage.a.1"}
    },
    "stage records of its own are forged": {
        "republish": {"source": OWN_SUBJECT, "destination": "evil.a._knative_aside.stage.a.1"}
    },
    "acks are sent": {
        "republish": {"source": OWN_SUBJECT, "destination": f"$JS.ACK.{VICTIM}.{VICTIMS_CONSUMER}.1.1.1.1.0"}
    },
    "answers are forged": {"republish": {"source": OWN_SUBJECT, "destination": "_INBOX_forward.a"}},
    "hints are forged": {"republish": {"source": OWN_SUBJECT, "destination": f"headrace.wake.{VICTIM}"}},
    "answers are read": {"additionalSubjects": ["_INBOX_forward.>"]},
    "answers of whoever comes": {"additionalSubjects": ["_INBOX.>"]},
    "a channel that is yet to come": {"additionalSubjects": ["victim.later._knative"]},
    "all channels that are yet to come": {"additionalSubjects": ["*.later._knative"]},
    "a namespace": {"additionalSubjects": ["victim.later.>"]},
    "a namespace by a wildcard": {"additionalSubjects": ["victim.*.*"]},
    "everything": {"additionalSubjects": [">"]},
    "another channel of its own namespace": {"additionalSubjects": ["evil.b._knative"]},
    "all channels of its own namespace": {"additionalSubjects": ["evil.*._knative"]},
    "parked events": {"additionalSubjects": ["victim.later._knative_aside.>"]},
    "what the Go channel delivers": {"additionalSubjects": ["victim.x._knative_consumer.>"]},
    "hints": {"additionalSubjects": ["headrace.wake.*"]},
    "a bucket that is yet to come": {"additionalSubjects": ["$KV.later.>"]},
    "advisories": {"additionalSubjects": ["$JS.EVENT.ADVISORY.>"]},
    "a stranger's subject": {"additionalSubjects": ["legacy.new.eu.*"]},
    "another's events": {"sources": [{"name": VICTIM}]},
    "another's parked events": {"sources": [{"name": f"{VICTIM}_aside"}]},
    "a bucket": {"sources": [{"name": "KV_payroll"}]},
    "a stranger's stream": {"sources": [{"name": "ORDERS"}]},
    "one of several": {"sources": [{"name": "KN_EVIL__B"}, {"name": VICTIM}]},
    "requests to the server": {"sources": [{"name": "KN_EVIL__B", "external": {"apiPrefix": "$JS.API"}}]},
    "messages on another's subject": {
        "sources": [{"name": "KN_EVIL__B", "external": {"apiPrefix": "evil.api.x", "deliverPrefix": "victim.x"}}]
    },
    "stored as another's": {"subjectTransform": {"source": OWN_SUBJECT, "destination": "victim.x._knative"}},
    "copied as another's": {
        "sources": [{"name": "KN_EVIL__B", "subjectTransforms": [{"source": ">", "destination": "victim.x.>"}]}]
    },
}
WITHOUT_STREAM: dict[str, dict[str, Any]] = {
    "a mirror of another's events": {"config": {"mirror": {"name": VICTIM}}},
    "a mirror of a bucket": {"config": {"mirror": {"name": "KV_payroll"}}},
    "a bucket": {"overrideName": "KV_payroll"},
    "a bucket that is yet to come": {"overrideName": "KV_later"},
    "another's stream": {"overrideName": VICTIM},
    "the stream of a channel that is yet to come": {"overrideName": "KN_VICTIM__LATER"},
    "the aside stream of one": {"overrideName": "KN_VICTIM__LATER_aside"},
    "an aside stream of its own namespace": {"overrideName": "KN_EVIL__B_aside"},
    "the stream of a namespace that begins alike": {"overrideName": "KN_EVIL__B__C_x0123456789abcdef"},
    "a stranger's stream": {"overrideName": "ORDERS"},
    "a stranger's stream, all of it": {"overrideName": "ORDERS", "config": {"additionalSubjects": ["legacy.>"]}},
}


@pytest.mark.parametrize("config", ATTACKS.values(), ids=ATTACKS)
async def test_what_a_new_channel_may_not_name_has_no_effect(
    strict: Hook, people: dict[str, Client], admin: JetStreamApi, config: dict[str, Any]
) -> None:
    before = await everything(admin)
    rewritten = {**await consumer(admin, VICTIM, VICTIMS_CONSUMER), "metadata": {"rewritten": "yes"}}
    request = json.dumps({"stream_name": VICTIM, "config": rewritten}).encode()

    answer = await strict.sync(evil(entry("bbbb-2"), **config))
    plain = await strict.stream(EVIL)
    stored = await post(people["receive"], OWN_SUBJECT)
    await post(people["receive"], OWN_SUBJECT, request)
    # Whatever a copy sets off has happened when the server has answered the next question.
    with suppress(Refused, Unavailable):
        await admin.call("INFO")

    assert await everything(admin) == before
    refused = condition(answer, "NamesAllowed")
    assert (refused["status"], refused["reason"]) == ("False", "NameRefused")
    assert condition(answer, "Ready")["reason"] == "NameRefused"
    assert "Namespace evil may not use it, so it has no effect: take it out" in refused["message"]
    # The channel itself works.
    assert stored is not None
    assert stored["stream"] == EVIL
    assert plain is not None
    assert plain["subjects"] == ["evil.a._knative"]
    assert not any(plain.get(key) for key in ("republish", "subject_transform", "mirror"))
    assert VICTIM not in json.dumps(plain)
    assert answer["resyncAfterSeconds"] == 30.1


async def test_of_many_names_three_are_told_and_the_line_opens_them_all(strict: Hook) -> None:
    subjects = [f"legacy.orders.{index}" for index in range(5)]

    answer = await strict.sync(evil(additionalSubjects=subjects))

    message = condition(answer, "NamesAllowed")["message"]
    assert "; and 2 more names. Namespace evil may not use them, so they have no effect: take them out, or" in message
    (tenant,) = tenants.parse({tenants.KEY: message.partition("in knative-eventing: ")[2]}).entries
    assert (tenant.namespaces, list(tenant.subjects)) == (("evil",), subjects)


@pytest.mark.parametrize("wanted", WITHOUT_STREAM.values(), ids=WITHOUT_STREAM)
async def test_a_stream_that_a_channel_may_not_name_is_not_touched_and_nothing_is_made(
    strict: Hook, admin: JetStreamApi, wanted: dict[str, Any]
) -> None:
    before = await everything(admin)

    answer = await strict.sync(channel(entry("bbbb-2"), namespace="evil", name="a", stream=wanted))

    assert strict.changes == []
    assert condition(answer, "Ready")["reason"] == "NameRefused"
    await strict.finalize(channel(entry("bbbb-2"), namespace="evil", name="a", stream=wanted))
    assert await everything(admin) == before
    assert await strict.stream(EVIL) is None


@pytest.mark.parametrize("config", ATTACKS.values(), ids=ATTACKS)
async def test_an_edit_with_a_name_that_is_not_its_own_leaves_a_running_channel_as_it_was(
    strict: Hook, people: dict[str, Client], admin: JetStreamApi, config: dict[str, Any]
) -> None:
    listed(strict, {"namespaces": ["evil"], "subjects": ["legacy.new"]})
    permitted = {"additionalSubjects": ["legacy.new"], "republish": {"destination": "evil.seen.by.>"}}
    made = await strict.sync(evil(entry("bbbb-2"), **permitted))
    assert condition(made, "Ready")["status"] == "True", made["status"]
    was, before = await strict.stream(EVIL), await everything(admin)

    answer = await strict.sync(evil(entry("bbbb-2"), generation=2, **{**permitted, **config}))
    stored = [await post(people["receive"], "evil.a._knative"), await post(people["admin"], "legacy.new")]

    assert await strict.stream(EVIL) == was
    assert await everything(admin) == before
    assert [one is not None and one["stream"] for one in stored] == [EVIL, EVIL]
    assert condition(answer, "Ready")["reason"] == "NameRefused"
    assert condition(answer, "Addressable")["status"] == "True"
    assert condition(answer, "ConsumersReady")["status"] == "True"


OPENED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a subject": ({"additionalSubjects": ["legacy.new"]}, {"subjects": ["legacy.*"]}),
    "a subject of the server, word by word": (
        {"additionalSubjects": ["$KV.later.>"]},
        {"subjects": ["$KV.later.>"]},
    ),
    "a channel's, word by word": (
        {"additionalSubjects": ["victim.later._knative"]},
        {"subjects": ["victim.later._knative"]},
    ),
    "a mapping": ({"republish": {"destination": "seen.>"}}, {"subjects": ["seen.>"]}),
    "a stream": ({"sources": [{"name": "ORDERS"}]}, {"streams": ["ORD*"]}),
    "a bucket, word by word": ({"sources": [{"name": "KV_payroll"}]}, {"streams": ["KV_payroll"]}),
    "another's stream, word by word": ({"sources": [{"name": VICTIM}]}, {"streams": [VICTIM]}),
}


@pytest.mark.parametrize(("config", "opened"), OPENED.values(), ids=OPENED)
async def test_the_administrators_list_opens_what_it_says(
    strict: Hook, config: dict[str, Any], opened: dict[str, Any]
) -> None:
    closed = await strict.sync(evil(**config))
    listed(strict, {"namespaces": ["ev*"], **opened})

    answer = await strict.sync(evil(**config))

    assert condition(closed, "Ready")["reason"] == "NameRefused"
    assert condition(answer, "Ready")["status"] == "True"
    assert "NamesAllowed" not in [one["type"] for one in answer["status"]["conditions"]]


@pytest.mark.parametrize("attack", sorted({*ATTACKS} - {"a stranger's subject", "a stranger's stream"}))
async def test_no_wildcard_of_the_list_opens_what_is_taken(strict: Hook, attack: str) -> None:
    listed(
        strict, {"namespaces": ["*"], "subjects": [">", "*.>", "victim.>", "$JS.>"], "streams": ["*", "KN_*", "KV_*"]}
    )

    answer = await strict.sync(evil(**ATTACKS[attack]))

    assert condition(answer, "Ready")["reason"] == "NameRefused"


OWN: dict[str, dict[str, Any]] = {
    "subjects below the namespace": {"additionalSubjects": ["evil.seen", "evil.seen.by.>", "evil.x.y.*"]},
    "its own subject": {"additionalSubjects": ["evil.a._knative"]},
    "a copy": {"republish": {"destination": "evil.seen.by.{{wildcard(1)}}.>", "source": "*.>"}},
    "another stream of the namespace": {"sources": [{"name": "KN_EVIL__B"}]},
}


@pytest.mark.parametrize("config", OWN.values(), ids=OWN)
async def test_what_is_its_namespaces_own_needs_no_list(strict: Hook, config: dict[str, Any]) -> None:
    await strict.sync(channel(namespace="evil", name="b"))
    answer = await strict.sync(evil(**config))
    assert condition(answer, "Ready")["status"] == "True"


# --- whose word counts ---


async def test_an_administrators_default_may_name_anything(strict: Hook) -> None:
    spec = {"stream": stream(additionalSubjects=["legacy.new.eu.*"])}
    strict.around = Around(
        channel_defaults.parse({channel_defaults.KEY: json.dumps({"namespaceDefaults": {"evil": {"spec": spec}}})})
    )

    answer = await strict.sync(evil())

    assert condition(answer, "Ready")["status"] == "True"
    assert (await strict.stream(EVIL) or {})["subjects"] == ["evil.a._knative", "legacy.new.eu.*"]


@pytest.mark.parametrize("metadata", [{"headrace.dev/created": "peer"}, {"headrace.dev/channel": "x"}])
async def test_marks_are_not_an_authors_to_write(strict: Hook, metadata: dict[str, str]) -> None:
    answer = await strict.sync(evil(metadata=metadata))
    assert condition(answer, "Ready")["reason"] == "InvalidSpec"
    assert strict.changes == []


async def test_a_namespace_called_headrace_has_no_hints_of_its_own(strict: Hook) -> None:
    wanted = stream(republish={"source": "headrace.a._knative", "destination": f"headrace.wake.{VICTIM}"})
    answer = await strict.sync(channel(namespace="headrace", name="a", stream=wanted))
    assert condition(answer, "Ready")["reason"] == "NameRefused"

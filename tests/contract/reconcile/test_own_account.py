"""Channels whose credentials are for another NATS account than the installation's, on a real server with two accounts.

The `reconcile` that is asked in the installation's place is a process of its own, with what its Deployment says.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from headrace.core.installation import tenants
from headrace.core.installation.channel_defaults import Defaults
from headrace.reconcile import Around
from tests.support.functions.apart import (
    ASIDE,
    BILLING,
    CONNECTION,
    NAMESPACED,
    STREAM,
    conditions,
    one,
    synced,
    until_let_in,
)
from tests.support.functions.channels import channel, entry, stream
from tests.support.functions.children import at
from tests.support.functions.functions import TOKEN, Function
from tests.support.functions.reconciling import Hook, condition
from tests.support.http.sending import BINARY, send
from tests.support.http.subscriber import Subscriber
from tests.support.kube.mounts import Mount
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.tenants import INSTALLATION, TENANT, Tenant, secret_of, token_at
from tests.support.waiting import until

pytest_plugins = ["tests.support.functions.elsewhere"]


async def test_before_its_reconcile_is_there_a_channel_says_so_and_wants_it(hook: Hook, theirs: Hook) -> None:
    answer = await synced(hook, **CONNECTION)

    assert conditions(answer) == {"Ready": "ReconcileUnreachable", "ConnectionServed": "ReconcileUnreachable"}
    assert "can't be reached" in condition(answer, "Ready")["message"]
    name = one(answer, "own-reconcile")["metadata"]["name"]
    assert {each["metadata"]["name"] for each in answer["children"]} == {name}
    assert answer["resyncAfterSeconds"] > 0
    assert await hook.stream(STREAM) is None
    assert await theirs.stream(STREAM) is None


async def test_its_streams_are_made_with_its_own_credentials_and_its_events_delivered(
    hook: Hook, theirs: Hook, tenant: Tenant, tmp_path: Path
) -> None:
    tenant.mount("channel", secret_of(TENANT))
    with Subscriber() as sinks:
        place = sinks.place()
        parts = {"status": {}, **CONNECTION}
        subscribed = entry(subscriberUri=place.uri)
        first = await hook.sync(channel(subscribed, **CONNECTION))
        with tenant.reconcile(one(first, "own-reconcile")):

            async def answered() -> bool:
                parts["status"] = (await hook.sync(channel(subscribed, **parts)))["status"]
                return condition(parts, "Ready")["status"] == "True"

            await until("the channel is ready", answered, 60.0)
            answer = await hook.sync(channel(subscribed, **parts))

        assert await theirs.durables(STREAM) == [BILLING]
        assert await hook.stream(STREAM) is None
        status = answer["status"]
        assert (status["elsewhere"], status["connection"]) == (True, "Secret orders-nats")
        assert answer["headrace"]["leasePlaces"]["stream"] == ""
        assert [each["pulls"] for each in status["consumers"]] == [True]
        assert answer["resyncAfterSeconds"] <= 60
        receive = Function("receive", tenant.server.url, tmp_path, ready=False, NATS_CREDENTIALS_DIR=str(tenant.root))
        with receive, tenant.function("forward", one(answer, "forward")):

            async def stored() -> bool:
                return (await send(f"{receive.url}/shop/orders", b"{}", BINARY)).status == 202

            await until("receive is let in", stored, 60.0)
            await place.wait(1, 60.0)


async def test_where_the_author_has_credentials_of_his_own_they_say_what_he_may_name(
    hook: Hook, theirs: Hook, tenant: Tenant
) -> None:
    assert hook.around is not None
    bounded = tenants.parse({tenants.KEY: "- {namespaces: [shop], maxBytes: {file: 1}}"})
    hook.around = replace(hook.around, tenants=bounded)
    circle = {"subjects": ["live.orders"], "republish": {"src": "live.orders", "dest": "legacy.orders"}}
    await hook.api.call("STREAM.CREATE.CIRCLE", {"name": "CIRCLE", **circle})
    republish = {"source": "legacy.orders", "destination": "live.orders"}
    wanted = stream(additionalSubjects=["legacy.orders"], maxBytes=1_000_000, republish=republish)
    refused = await hook.sync(channel(entry(), stream=wanted))
    tenant.mount("channel", secret_of(TENANT))
    first = await synced(hook, stream=wanted, **CONNECTION)
    with tenant.reconcile(one(first, "own-reconcile")):
        await until_let_in(hook, stream=wanted, **CONNECTION)

    assert condition(refused, "Ready")["reason"] == "NameRefused"
    made = await theirs.stream(STREAM) or {}
    assert made["subjects"] == ["shop.orders._knative", "legacy.orders"]
    assert (made["max_bytes"], made["republish"]["dest"]) == (1_000_000, "live.orders")


async def test_credentials_for_the_installations_own_account_are_woken_as_all_are(hook: Hook, tenant: Tenant) -> None:
    tenant.mount("channel", secret_of(INSTALLATION))
    first = await synced(hook, **CONNECTION)
    with tenant.reconcile(one(first, "own-reconcile")):
        answer = await until_let_in(hook, **CONNECTION)

    assert await hook.durables(STREAM) == [BILLING]
    assert "elsewhere" not in answer["status"]
    assert answer["headrace"]["leasePlaces"]["stream"] == STREAM
    assert "pulls" not in answer["status"]["consumers"][0]
    assert one(answer, "forward", "Service")["apiVersion"] == "serving.knative.dev/v1"


async def test_when_it_goes_its_stream_goes_first_and_who_has_the_credentials_last(
    hook: Hook, theirs: Hook, tenant: Tenant
) -> None:
    tenant.mount("channel", secret_of(TENANT))
    first = await synced(hook, **CONNECTION)
    with tenant.reconcile(one(first, "own-reconcile")):
        answer = await until_let_in(hook, **CONNECTION)
        gone = await hook.finalize(channel(entry(), status=answer["status"], **CONNECTION))

    assert (gone["finalized"], gone["children"]) == (True, [])
    assert await theirs.stream(STREAM) is None
    assert await theirs.stream(ASIDE) is None


async def test_a_set_that_is_gone_already_is_wanted_once_more_and_waited_for_and_then_let_go(
    hook: Hook, theirs: Hook, tenant: Tenant
) -> None:
    tenant.mount("channel", secret_of(TENANT))
    first = await synced(hook, **CONNECTION)
    with tenant.reconcile(one(first, "own-reconcile")):
        status = (await until_let_in(hook, **CONNECTION))["status"]
    hook.children = {}

    waits = await hook.finalize(channel(entry(), status=status, **CONNECTION))
    hook.later(599)
    still = await hook.finalize(channel(entry(), status=waits["status"], **CONNECTION))
    hook.later(1)
    gives_up = await hook.finalize(channel(entry(), status=still["status"], **CONNECTION))

    assert (waits["finalized"], still["finalized"], gives_up["finalized"]) == (False, False, True)
    assert conditions(waits) == {"CredentialsAccepted": "ReconcileUnreachable", "Ready": "ReconcileUnreachable"}
    assert one(waits, "own-reconcile")["metadata"]["name"] == one(first, "own-reconcile")["metadata"]["name"]
    assert gives_up["children"] == []
    (event,) = gives_up["headrace"]["events"]
    assert event["reason"] == "StreamOrphaned"
    assert STREAM in event["message"]
    assert await theirs.stream(STREAM) is not None

    # The set is there again in time: all of it goes after all.
    with tenant.reconcile(one(waits, "own-reconcile")):

        async def goes() -> bool:
            return bool((await hook.finalize(channel(entry(), status=waits["status"], **CONNECTION)))["finalized"])

        hook.later(-600)
        await until("the channel is let go", goes, 60.0)
    assert await theirs.stream(STREAM) is None


async def test_what_a_namespaces_config_map_names_is_mounted_and_told_of_while_it_is_missing(
    hook: Hook, theirs: Hook, tenant: Tenant, accounts: NatsServer, tmp_path: Path
) -> None:
    parts = {"annotations": NAMESPACED}
    naming = (
        f"url: {accounts.url}\nauth: {{usernamePassword: {{secret: {{secretName: shop-user, usernameKey: name}}}}}}"
    )
    tenant.config = Mount(tmp_path / "config", **{"eventing-jetstream": naming})
    assert hook.around is not None
    hook.around = Around(
        Defaults(config_names={"shop": "config-of-shop"}),
        digests=hook.around.digests,
        elsewhere=hook.around.elsewhere,
    )
    user = tenant.mount("namespace", {})

    first = await synced(hook, **parts)
    assert at(one(first, "own-reconcile"), "spec/template/spec/volumes/0/projected/sources/0/configMap/name") == (
        "config-of-shop"
    )
    with tenant.reconcile(one(first, "own-reconcile")):

        async def named() -> bool:
            return "SecretMissing" in conditions(await synced(hook, **parts)).values()

        await until("the Secret that is missing is told of", named, 60.0)
        refused = await synced(hook, **parts)
        assert condition(refused, "Ready")["reason"] == "CredentialsRefused"
        assert "shop-user (key name)" in condition(refused, "NatsSettingsRead")["message"]
        mounted = {
            "name": "nats-namespace",
            "projected": {
                "sources": [
                    {
                        "secret": {
                            "name": "shop-user",
                            "items": [
                                {"key": "name", "path": "username"},
                                {"key": "password", "path": "password"},
                            ],
                            "optional": True,
                        }
                    }
                ]
            },
        }
        assert mounted in at(one(refused, "own-reconcile"), "spec/template/spec/volumes")

        user.swap(**secret_of(TENANT))
        answer = await until_let_in(hook, **parts)

    assert "NatsSettingsRead" not in conditions(answer)
    assert mounted in at(one(answer, "receive", "Service"), "spec/template/spec/volumes")
    assert answer["status"]["connection"] == "namespace shop"
    assert await theirs.stream(STREAM) is not None
    # While nobody answers, what is mounted stays mounted.
    silent = await synced(hook, status=answer["status"], **parts)
    assert mounted in at(one(silent, "own-reconcile"), "spec/template/spec/volumes")


async def test_a_nats_that_is_away_over_there_is_told_of_and_changes_nothing(
    hook: Hook, tenant: Tenant, accounts: NatsServer
) -> None:
    tenant.mount("channel", secret_of(TENANT))
    first = await synced(hook, **CONNECTION)
    with tenant.reconcile(one(first, "own-reconcile")):
        before = await until_let_in(hook, **CONNECTION)
        accounts.stop()
        answer = await synced(hook, status=before["status"], **CONNECTION)
        accounts.start()

    assert condition(answer, "Ready")["status"] == "True"
    assert "NATS is not reachable" in condition(answer, "ConnectionServed")["message"]
    assert {each["metadata"]["name"] for each in answer["children"]} == {
        each["metadata"]["name"] for each in before["children"]
    }


NO_CALLS = [
    b"",
    b"[]",
    b'{"call": "drop", "arguments": []}',
    b'{"call": "close", "arguments": []}',
    b'{"call": "stream"}',
    b'{"call": "stream", "arguments": []}',
    b'{"call": "carry_out", "arguments": [{"action": "Format"}]}',
]


async def test_strangers_are_told_nothing_over_there_and_what_is_no_call_is_refused(hook: Hook, tenant: Tenant) -> None:
    tenant.mount("channel", secret_of(TENANT))
    deployment = one(await synced(hook, **CONNECTION), "own-reconcile")
    its_url = f"http://{deployment['metadata']['name']}.shop.svc.cluster.local"
    call = b'{"call": "named", "arguments": []}'
    with tenant.reconcile(deployment) as function:

        async def status(body: bytes, token: str) -> int:
            return (await send(f"{function.url}/nats", body, {"authorization": f"Bearer {token}"})).status

        for shown in ("", TOKEN, token_at("http://another.host")):
            assert await status(call, shown) == 401
        assert await status(call, token_at(its_url)) == 200
        for body in NO_CALLS:
            assert await status(body, token_at(its_url)) == 400, body

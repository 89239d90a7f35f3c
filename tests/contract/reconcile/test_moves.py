"""The credentials of a channel change while it lives: its author is told what is left in the former account."""

from __future__ import annotations

from tests.support.functions.apart import CONNECTION, STREAM, conditions, one, synced, until_let_in
from tests.support.functions.channels import channel, entry
from tests.support.functions.reconciling import Hook, condition
from tests.support.nats.tenants import TENANT, Tenant, secret_of
from tests.support.waiting import until

pytest_plugins = ["tests.support.functions.elsewhere"]


async def test_a_channel_that_is_given_credentials_leaves_a_stream_that_goes_with_it(
    hook: Hook, theirs: Hook, tenant: Tenant
) -> None:
    tenant.mount("channel", secret_of(TENANT))
    before = await synced(hook)
    assert condition(before, "Ready")["status"] == "True"
    first = await synced(hook, status=before["status"], **CONNECTION)
    # It is ready as before, for all that is known, until somebody can say more.
    assert condition(first, "Ready")["status"] == "True"
    assert conditions(first)["ConnectionServed"] == "ReconcileUnreachable"
    with tenant.reconcile(one(first, "own-reconcile")):

        async def moved() -> bool:
            return (await synced(hook, status=first["status"], **CONNECTION))["status"].get("connection") is not None

        await until("the channel has moved", moved, 60.0)
        answer = await synced(hook, status=first["status"], **CONNECTION)
        left = condition(answer, "NothingLeftBehind")
        assert (left["reason"], left["severity"]) == ("StreamLeftInCluster", "Info")
        assert STREAM in left["message"]
        assert await hook.stream(STREAM) is not None

        gone = await hook.finalize(channel(entry(), status=answer["status"], **CONNECTION))

    assert gone["finalized"] is True
    assert await hook.stream(STREAM) is None
    assert await theirs.stream(STREAM) is None


async def test_a_channel_whose_credentials_are_taken_away_tells_what_stays_with_them(
    hook: Hook, theirs: Hook, tenant: Tenant
) -> None:
    tenant.mount("channel", secret_of(TENANT))
    first = await synced(hook, **CONNECTION)
    with tenant.reconcile(one(first, "own-reconcile")):
        before = await until_let_in(hook, **CONNECTION)

    after = await synced(hook, status=before["status"])
    later = await synced(hook, status=after["status"])

    for answer in (after, later):
        assert condition(answer, "Ready")["status"] == "True"
        left = condition(answer, "NothingLeftBehind")
        assert (left["reason"], left["severity"]) == ("StreamLeftBehind", "Info")
        assert "Secret orders-nats" in left["message"]
        assert "connection" not in answer["status"]
        assert "elsewhere" not in answer["status"]
    assert await hook.stream(STREAM) is not None
    assert await theirs.stream(STREAM) is not None


async def test_another_secret_for_the_same_account_leaves_nothing_behind(hook: Hook, tenant: Tenant) -> None:
    tenant.mount("channel", secret_of(TENANT))
    first = await synced(hook, **CONNECTION)
    with tenant.reconcile(one(first, "own-reconcile")):
        before = await until_let_in(hook, **CONNECTION)
        renamed = {"connection": {"secretRef": {"name": "orders-nats-2"}}}
        answer = await synced(hook, status=before["status"], **renamed)

    assert "NothingLeftBehind" not in conditions(answer)
    assert answer["status"]["connection"] == "Secret orders-nats-2"
    assert answer["status"]["elsewhere"] is True


async def test_a_channel_that_goes_before_its_credentials_ever_worked_takes_its_former_stream_along(hook: Hook) -> None:
    before = await synced(hook)
    moving = await synced(hook, status=before["status"], **CONNECTION)
    waits = await hook.finalize(channel(entry(), status=moving["status"], **CONNECTION))
    assert (waits["finalized"], await hook.stream(STREAM) is not None) == (False, True)

    hook.later(600)
    gone = await hook.finalize(channel(entry(), status=waits["status"], **CONNECTION))

    assert gone["finalized"] is True
    assert await hook.stream(STREAM) is None

"""A manifest whose copies would fill NATS, `reconcile` and the operator: none of them gets there."""

from __future__ import annotations

from headrace.io.nats.client import Client
from tests.support.functions.channels import channel, entry
from tests.support.functions.reconciling import Hook, condition

METADATA = {"metadata": {f"k{index:02}": "v" * 1024 for index in range(64)}}


async def test_a_template_that_would_be_copied_beyond_the_bound_makes_nothing_and_changes_nothing(
    connection: Client,
) -> None:
    hook = Hook(connection)
    crowd = [entry(f"uid-{index}", f"s{index}") for index in range(1_000)]

    new = await hook.sync(channel(*crowd, consumerConfigTemplate=METADATA))
    assert condition(new, "Ready")["reason"] == "InvalidSpec"
    assert "bytes in the 1000 consumers of this channel, and 8388608 are the most" in condition(new, "Ready")["message"]
    assert hook.changes == []

    await hook.sync(channel(crowd[0]))
    edited = await hook.sync(channel(*crowd, generation=2, consumerConfigTemplate=METADATA))
    assert condition(edited, "Ready")["reason"] == "InvalidSpec"
    assert hook.changes == []
    assert len(await hook.durables("KN_SHOP__ORDERS")) == 1

"""The hook answers the functions of a channel beside what it does in NATS."""

from __future__ import annotations

import pytest

from headrace.core.installation.secret_files import SecretFile
from headrace.core.installation.secret_names import SecretNames
from headrace.io.nats.client import Client
from headrace.reconcile import Around
from tests.support.functions.channels import channel, entry
from tests.support.functions.children import IMAGE, as_observed, at
from tests.support.functions.reconciling import Hook, condition

DURABLE = "KN_SUB_AAAA1"
CLUSTER_SCOPED = {"image": IMAGE, "runtime": "knative"}


@pytest.fixture
def hook(connection: Client) -> Hook:
    return Hook(connection, **CLUSTER_SCOPED)


async def test_each_consumer_says_which_function_delivers_for_it(hook: Hook) -> None:
    answer = await hook.sync(channel(entry()))

    receive, forward = answer["children"]
    (consumer,) = answer["status"]["consumers"]
    name = forward["metadata"]["name"]
    assert receive["metadata"]["name"] == "headrace-receive"
    assert (consumer["durable"], consumer["forward"]) == (DURABLE, f"http://{name}.knative-eventing.svc.cluster.local")
    assert answer["status"]["address"] == {
        "url": "http://headrace-receive.knative-eventing.svc.cluster.local/shop/orders"
    }
    assert condition(answer, "Ready")["status"] == "True"


async def test_a_subscriber_that_is_back_under_another_uid_keeps_its_function(hook: Hook) -> None:
    before = await hook.sync(channel(entry("aaaa-1")))

    after = await hook.sync(channel(entry("bbbb-2")))

    assert after["children"] == before["children"]


async def test_a_function_goes_with_its_consumer_and_not_with_an_entry_that_flaps(hook: Hook) -> None:
    before = await hook.sync(channel(entry()))

    flapped = await hook.sync(channel())
    hook.later(61)
    gone = await hook.sync(channel())

    assert flapped["children"] == before["children"]
    assert gone["children"] == before["children"][:1]


async def test_a_channel_that_makes_no_sense_any_more_keeps_its_functions(hook: Hook) -> None:
    before = await hook.sync(channel(entry()))
    hook.children = as_observed(before["children"])

    after = await hook.sync(channel(entry(), annotations={"headrace.dev/max-scale": "many"}))

    assert condition(after, "Ready")["reason"] == "InvalidSpec"
    names = [[one["metadata"]["name"] for one in answer["children"]] for answer in (before, after)]
    assert sorted(names[0]) == sorted(names[1])


async def test_a_channel_that_goes_wants_no_functions_any_more(hook: Hook) -> None:
    await hook.sync(channel(entry()))

    assert (await hook.finalize(channel(entry())))["children"] == []


async def test_without_an_image_nothing_is_answered(connection: Client) -> None:
    answer = await Hook(connection).sync(channel(entry()))

    assert answer["children"] == []
    assert answer["status"]["address"] == {"url": "http://orders-kn-jsm-channel.shop.svc.cluster.local"}
    assert "forward" not in answer["status"]["consumers"][0]


async def test_what_the_installations_config_map_names_is_mounted_into_functions_and_told_of_where_it_is_missing(
    connection: Client,
) -> None:
    user = SecretFile("user", "my.creds", "nats.creds")
    around = Around(named=SecretNames((user,), (user,), "config-nats"))

    answer = await Hook(connection, around, **CLUSTER_SCOPED).sync(channel(entry()))

    for function in answer["children"]:
        (volume, security) = at(function, "spec/template/spec/volumes")
        assert security["projected"]["sources"] == [{"configMap": {"name": "headrace-security", "optional": True}}]
        items = [{"key": "my.creds", "path": "nats.creds"}]
        assert volume["projected"]["sources"] == [{"secret": {"name": "user", "items": items, "optional": True}}]
    told = condition(answer, "NatsSettingsRead")
    assert (told["reason"], told["severity"]) == ("SecretMissing", "Info")
    assert "ConfigMap config-nats" in told["message"]
    assert "user (key my.creds)" in told["message"]
    assert condition(answer, "Ready")["status"] == "True"


FORGED = {
    "stream": "KN_VICTIM__ORDERS",
    "receive": "victim/headrace-receive",
    "elsewhere": False,
    "consumers": [{"uid": "aaaa-1", "durable": DURABLE, "forward": "http://attacker.example/"}],
    "address": {"url": "http://attacker.example/"},
    "connection": "Secret victims",
    "streamCreated": "2026-01-01T00:00:00Z",
}


@pytest.mark.parametrize(
    ("annotations", "senders"),
    [
        pytest.param({}, {}, id="that makes sense"),
        # As whom events are sent is not known then: the last identities still count.
        pytest.param({"headrace.dev/max-scale": "many"}, {"identities": None}, id="that makes none any more"),
    ],
)
async def test_where_leases_are_opened_follows_from_nats_and_the_children_and_never_from_a_status(
    hook: Hook, annotations: dict[str, str], senders: dict[str, None]
) -> None:
    before = await hook.sync(channel(entry()))
    hook.children = as_observed(before["children"])
    (forward,) = (one for one in before["children"] if one["metadata"]["name"] != "headrace-receive")
    places = {
        "stream": "KN_SHOP__ORDERS",
        "receive": "knative-eventing/headrace-receive",
        "forwards": {
            DURABLE: {"url": f"http://{forward['metadata']['name']}.knative-eventing.svc.cluster.local", "pulls": False}
        },
    }
    assert before["headrace"]["leasePlaces"] == places

    answer = await hook.sync(channel(entry(), annotations=annotations, status=FORGED))

    assert answer["headrace"]["leasePlaces"] == {**places, **senders}


async def test_of_a_channel_without_consumers_that_makes_no_sense_no_place_is_known(hook: Hook) -> None:
    broken = channel(annotations={"headrace.dev/max-scale": "many"}, status=FORGED)

    assert "leasePlaces" not in (await hook.sync(broken)).get("headrace", {})


async def test_the_stream_that_a_channel_without_sense_names_is_no_place_to_open_its_leases(hook: Hook) -> None:
    await hook.sync(channel(entry(), namespace="victim"))
    wanted = {"overrideName": "KN_VICTIM__ORDERS"}

    answer = await hook.sync(channel(entry(), stream=wanted, annotations={"headrace.dev/max-scale": "many"}))

    assert "leasePlaces" not in answer.get("headrace", {})

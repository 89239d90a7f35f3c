"""Of thousands of Subscriptions a request for one channel holds those that concern it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.core.channel.customize import RelatedRule
from headrace.core.errors import Refused
from headrace_operator.channels.related_objects import ObjectTexts, RelatedObjects, is_news, without_secrets
from headrace_operator.kube import kinds
from headrace_operator.kube.api import KubeApi
from headrace_operator.kube.kinds import Discovery, Kind
from headrace_operator.kube.watch import Cache
from tests.support.waiting import until

ASKED = {"apiVersion": "messaging.knative.dev/v1", "resource": "subscriptions"}
CONCERNING = {**ASKED, "headrace": {"concerning": "parent"}}


class Held:
    """What is watched, and what of it a channel is sent."""

    def __init__(self) -> None:
        kind = Kind("messaging.knative.dev/v1", "Subscription", "subscriptions", namespaced=True)
        self.cache = Cache(kind)
        self._version = 0
        self._texts = ObjectTexts(SimpleNamespace(cache=self.cache))  # type: ignore[arg-type]  # its cache is all it needs

    def put(self, namespace: str, name: str, uid: str, channel: Any) -> None:
        self._version += 1
        metadata = {"namespace": namespace, "name": name, "uid": uid, "resourceVersion": str(self._version)}
        self.cache.put({"metadata": metadata, "spec": {"channel": channel}})

    def sent(self, wanted: dict[str, Any], channel: dict[str, Any]) -> set[str]:
        members = b",".join(self._texts.members(RelatedRule.from_json(wanted), channel))
        return set(json.loads(b"{" + members + b"}"))


def channel(*subscribers: str, consumers: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "shop", "name": "orders"},
        "spec": {"subscribers": [{"uid": uid} for uid in subscribers]},
        "status": {"consumers": [{"uid": uid} for uid in consumers]},
    }


def held() -> Held:
    found = Held()
    found.put("shop", "mine", "u1", {"name": "orders", "kind": "Channel"})
    found.put("ops", "from-afar", "u2", {"namespace": "shop", "name": "orders"})
    found.put("shop", "other", "u3", {"name": "bills"})
    found.put("ops", "namesake", "u4", {"name": "orders"})
    found.put("ops", "strange", "u5", "orders")
    return found


def test_those_that_name_the_channel_are_sent_from_every_namespace_whatever_kind_they_say() -> None:
    assert held().sent(CONCERNING, channel()) == {"mine", "ops/from-afar"}


def test_so_are_those_of_its_namespace_that_the_channel_mentions_and_no_others() -> None:
    found = held()
    found.put("shop", "strange", "u6", "orders")
    sent = found.sent(CONCERNING, channel("u3", "u4", "gone", consumers=("u5", "u6")))
    assert sent == {"mine", "ops/from-afar", "other", "strange"}


def test_who_does_not_say_so_is_sent_all_of_them() -> None:
    assert len(held().sent(ASKED, channel())) == 5


def test_what_is_deleted_or_made_again_for_another_channel_is_not_sent_any_more() -> None:
    found = held()
    found.put("ops", "from-afar", "u9", {"namespace": "shop", "name": "bills"})
    for each in list(found.cache):
        if each["metadata"]["name"] == "mine":
            found.cache.remove(each)
    assert found.sent(CONCERNING, channel("u1", "u2")) == set()
    found.put("shop", "other", "u8", {"name": "mail"})
    assert found.sent(CONCERNING, channel("u3", "u9")) == set()
    assert found.sent(CONCERNING, channel("u8", "u9")) == {"other"}


class ApiServer:
    """With no sink; who asks for them may see that, or may not."""

    def __init__(self, *, forbids: bool) -> None:
        self.forbids = forbids

    async def list(self, _path: str, _selection: Mapping[str, str]) -> tuple[list[dict[str, Any]], str]:
        if self.forbids:
            raise Refused("brokers is forbidden", status=403)
        return [], "7"

    async def watch(self, _path: str, _parameters: Mapping[str, str]) -> AsyncIterator[None]:
        yield None
        await asyncio.Event().wait()


class Serving:
    """Discovery of a cluster that serves brokers."""

    async def by_plural(self, api_version: str, plural: str) -> Kind | None:
        return Kind(api_version, "Broker", plural)


@pytest.mark.parametrize(
    ("forbids", "then"),
    [
        pytest.param(False, {"Broker.eventing.knative.dev/v1": {}}, id="a sink that is not there"),
        pytest.param(True, {}, id="one that is not ours to see is not said to be missing"),
    ],
)
async def test_what_is_missing_is_told_apart_from_what_may_not_be_seen(forbids: bool, then: dict[str, Any]) -> None:
    asked = {"apiVersion": "eventing.knative.dev/v1", "resource": "brokers", "names": ["dead"]}
    watches: list[asyncio.Task[None]] = []
    api, discovery = cast("KubeApi", ApiServer(forbids=forbids)), cast("Discovery", Serving())
    related = RelatedObjects(
        api, discovery, lambda work: watches.append(asyncio.create_task(work)), patience=0.1 if forbids else 60
    )
    try:
        await related.ask_for(("shop", "orders"), [RelatedRule.from_json(asked)])
        assert json.loads(related.write(channel())) == then
    finally:
        for watch in watches:
            watch.cancel()


async def test_what_may_not_be_seen_is_waited_for_once_and_not_by_each_of_a_thousand_channels() -> None:
    asked = {"apiVersion": "eventing.knative.dev/v1", "resource": "brokers", "names": ["dead"]}
    watches: list[asyncio.Task[None]] = []
    server, told = ApiServer(forbids=True), set()
    discovery = cast("Discovery", Serving())
    related = RelatedObjects(
        cast("KubeApi", server), discovery, lambda work: watches.append(asyncio.create_task(work)), patience=0.2
    )
    related.listeners.append(lambda _uid, asking: told.update(asking))
    channels = {("shop", f"orders-{number}") for number in range(1000)}
    try:
        async with asyncio.timeout(20):
            for one in channels:
                await related.ask_for(one, [RelatedRule.from_json(asked)])
        related.forget(("shop", "orders-7"))
        server.forbids = False
        await until("those that are there are told of it", lambda: len(told) == 999)
        assert told == channels - {("shop", "orders-7")}
    finally:
        for watch in watches:
            watch.cancel()


class Slow(ApiServer):
    """Answers after a while."""

    async def list(self, path: str, selection: Mapping[str, str]) -> tuple[list[dict[str, Any]], str]:
        await asyncio.sleep(0.5)
        return await super().list(path, selection)


async def test_what_is_only_slow_is_waited_for_by_each() -> None:
    asked = {"apiVersion": "eventing.knative.dev/v1", "resource": "brokers", "names": ["dead"]}
    watches: list[asyncio.Task[None]] = []
    server, discovery = cast("KubeApi", Slow(forbids=False)), cast("Discovery", Serving())
    related = RelatedObjects(server, discovery, lambda work: watches.append(asyncio.create_task(work)), patience=0.3)
    try:
        for name in ("orders", "returns"):
            await related.ask_for(("shop", name), [RelatedRule.from_json(asked)])
        returns = {**channel(), "metadata": {"namespace": "shop", "name": "returns"}}
        assert json.loads(related.write(returns)) == {"Broker.eventing.knative.dev/v1": {}}
    finally:
        for watch in watches:
            watch.cancel()


class Post:
    """An API server with one group, which has the kinds that it is given; counts how often it is asked for them."""

    def __init__(self) -> None:
        self.kinds: dict[str, str] = {"Letter": "letters"}
        self.asked = 0

    async def get(self, path: str) -> dict[str, Any]:
        if path == "/apis":
            return {"groups": [{"versions": [{"groupVersion": "post.example.com/v1"}]}]}
        self.asked += 1
        named = self.kinds.items()
        return {"resources": [{"kind": kind, "name": plural, "namespaced": True} for kind, plural in named]}

    async def list(self, _path: str, _selection: Mapping[str, str]) -> tuple[list[dict[str, Any]], str]:
        return [{"metadata": {"namespace": "shop", "name": "dead", "uid": "u1", "resourceVersion": "1"}}], "7"

    async def watch(self, _path: str, _parameters: Mapping[str, str]) -> AsyncIterator[None]:
        yield None
        await asyncio.Event().wait()


async def test_a_kind_is_found_by_what_the_api_server_calls_it_also_when_it_comes_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = {"apiVersion": "post.example.com/v1", "resource": "mouses", "names": ["dead"]}
    wanted = RelatedRule.from_json({**asked, "headrace": {"kind": "Mouse"}})
    api, watches = Post(), list[asyncio.Task[None]]()
    discovery = Discovery(cast("KubeApi", api))
    await discovery.refresh()
    related = RelatedObjects(cast("KubeApi", api), discovery, lambda work: watches.append(asyncio.create_task(work)))
    try:
        await related.ask_for(("shop", "orders"), [wanted])
        assert related.unserved(("shop", "orders")) == {"Mouse.post.example.com/v1"}
        # It was asked a moment ago.
        assert not await related.appeared()
        assert api.asked == 1

        api.kinds["Mouse"] = "mice"
        monkeypatch.setattr(kinds, "LOOK_AGAIN_SECONDS", 0.0)
        assert await related.appeared()
        await related.ask_for(("shop", "orders"), [wanted])
        assert related.unserved(("shop", "orders")) == frozenset()
        assert json.loads(related.write(channel()))["Mouse.post.example.com/v1"].keys() == {"dead"}
        assert not await related.appeared()
    finally:
        for watch in watches:
            watch.cancel()


async def test_for_what_is_only_told_of_nobody_waits_until_he_may_see_it() -> None:
    policies = {"apiVersion": "eventing.knative.dev/v1alpha1", "resource": "eventpolicies", "namespace": "shop"}
    features = {"apiVersion": "v1", "resource": "configmaps", "namespace": "knative-eventing", "names": ["flags"]}
    optional = {"headrace": {"optional": True}}
    watches: list[asyncio.Task[None]] = []
    api, discovery = cast("KubeApi", ApiServer(forbids=True)), cast("Discovery", Serving())
    related = RelatedObjects(api, discovery, lambda work: watches.append(asyncio.create_task(work)), patience=60)
    try:
        async with asyncio.timeout(20):
            await related.ask_for(
                ("shop", "orders"), [RelatedRule.from_json({**one, **optional}) for one in (policies, features)]
            )
        assert related.unseen(("shop", "orders")) == {
            "Broker.eventing.knative.dev/v1alpha1/shop",
            "Broker.v1/knative-eventing/flags",
        }
    finally:
        for watch in watches:
            watch.cancel()


class Telling(Post):
    """One more letter comes when it is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = asyncio.Event()

    async def watch(self, _path: str, _parameters: Mapping[str, str]) -> AsyncIterator[Any]:
        yield None
        await self.sent.wait()
        metadata = {"namespace": "shop", "name": "new", "uid": "u2", "resourceVersion": "8"}
        yield {"type": "ADDED", "object": {"metadata": metadata}}
        await asyncio.Event().wait()


async def test_a_change_is_told_to_those_alone_that_ask_for_objects_of_its_place() -> None:
    asked = {"apiVersion": "post.example.com/v1", "resource": "letters"}
    api, watches = Telling(), list[asyncio.Task[None]]()
    discovery = Discovery(cast("KubeApi", api))
    await discovery.refresh()
    related = RelatedObjects(cast("KubeApi", api), discovery, lambda work: watches.append(asyncio.create_task(work)))
    told: list[frozenset[tuple[str, str]]] = []
    try:
        for namespace in ("shop", "ops"):
            await related.ask_for((namespace, "orders"), [RelatedRule.from_json({**asked, "namespace": namespace})])
        related.listeners.append(lambda _uid, asking: told.append(asking))
        api.sent.set()
        await until("somebody is told", lambda: bool(told))
        assert told == [frozenset({("shop", "orders")})]
    finally:
        for watch in watches:
            watch.cancel()


def subscription(**status: Any) -> dict[str, Any]:
    metadata = {"namespace": "shop", "name": "mine", "uid": "u1", "generation": 1}
    return {"kind": "Subscription", "metadata": metadata, "status": status}


def test_of_a_subscriptions_status_its_account_alone_is_news() -> None:
    """Knative writes it a moment after the entry of the channel; all else there is the echo of our own status."""
    before, account = subscription(), {"serviceAccountName": "mine-oidc"}
    assert not is_news(before, subscription(conditions=[{"type": "Ready", "status": "True"}]))
    assert is_news(before, subscription(auth=account))
    assert not is_news(subscription(auth=account), subscription(auth=account, observedGeneration=1))
    assert is_news(subscription(auth=account), before)


def test_of_a_secret_only_the_authority_is_kept() -> None:
    secret = {
        "metadata": {"name": "a"},
        "data": {"tls.key": "k", "tls.crt": "c", "ca.crt": "a"},
        "stringData": {"x": "y"},
    }
    without_secrets(secret)
    assert secret == {"metadata": {"name": "a"}, "data": {"ca.crt": "a"}}
    bare = {"data": {"token": "t"}}
    without_secrets(bare)
    assert bare == {}

"""What is written for each place, when, and what a lost sight or a restart leaves in force."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from headrace.core.channel.hook import HookResponse
from headrace.core.errors import Refused, Unavailable
from headrace.core.security import document as form
from headrace.core.security.document import SecurityDocument
from headrace.core.security.flags import Flags, TransportEncryption
from headrace.io.nats.client import Client
from headrace.io.process import clock
from headrace_operator.channels import security_writer
from headrace_operator.channels.security_writer import SecurityWriter
from headrace_operator.kube.api import KubeApi
from headrace_operator.kube.kinds import CHANNEL
from headrace_operator.kube.watch import Cache

KEY = b"k" * 32
ORDERS, RETURNS = ("shop", "orders"), ("shop", "returns")
STRICT = {"transport-encryption": "strict"}
PEM = "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----"


class Server:
    """The API server's ConfigMaps by path, and the pushes."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.writes = 0
        self.pushed: list[tuple[str, bytes]] = []
        self.forbidden = False
        self.away = False
        self.gone = False
        self.tried = 0

    async def get(self, path: str) -> dict[str, Any] | None:
        return self.objects.get(path)

    async def apply(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        self.tried += 1
        if self.gone:
            raise Refused("namespaces not found", status=404)
        if self.forbidden:
            raise Refused("not in this namespace", status=403)
        self.writes += 1
        self.objects[path] = {**body, "metadata": {**body["metadata"], "uid": f"uid-{self.writes}"}}
        return self.objects[path]

    async def delete(self, path: str, uid: str) -> None:
        assert self.objects.pop(path)["metadata"]["uid"] == uid

    async def publish(self, subject: str, data: bytes) -> None:
        if self.away:
            raise Unavailable("not connected to NATS")
        self.pushed.append((subject, data))

    def document(self, place: str) -> SecurityDocument:
        body = self.objects[f"/api/v1/namespaces/{place}/configmaps/headrace-security"]
        return SecurityDocument.from_json(body["data"][form.KEY])


class Around:
    """A writer with everything that it sees."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.channels = Cache(CHANNEL)
        self.writer = SecurityWriter(cast(KubeApi, server), cast(Client, server), self.channels, lambda _: KEY)
        self.features, self.bundles = (watch.cache for watch in self.writer.watches)
        self._version = 0

    def see(self, cache: Cache, *items: dict[str, Any]) -> None:
        self._version += 1
        for one in items:
            one["metadata"]["resourceVersion"] = str(self._version)
        cache.replace(list(items), str(self._version))

    def flags(self, data: Mapping[str, str]) -> None:
        self.see(self.features, config_map("config-features", data))

    def channel(self, *names: tuple[str, str]) -> None:
        self.see(self.channels, *({"metadata": {"namespace": one, "name": name, "uid": name}} for one, name in names))

    def answer(self, channel: tuple[str, str], place: str = "knative-eventing", policies: Any = None) -> None:
        self.writer.hear(channel, HookResponse(children=(receive(place),), security=policies))

    async def bring(self) -> None:
        for place in sorted(self.writer._places):
            await self.writer._bring(place)


def receive(place: str) -> dict[str, Any]:
    labels = {"app.kubernetes.io/component": "receive"}
    return {"kind": "Deployment", "metadata": {"namespace": place, "name": "receive", "labels": labels}}


def config_map(name: str, data: Mapping[str, str]) -> dict[str, Any]:
    return {"metadata": {"namespace": "knative-eventing", "name": name}, "data": dict(data)}


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def around(server: Server) -> Around:
    found = Around(server)
    found.channel(ORDERS, RETURNS)
    found.see(found.bundles)
    return found


async def test_without_a_flag_nothing_is_written_and_nothing_pushed(around: Around, server: Server) -> None:
    around.flags(
        {"delivery-timeout": "disabled", "kreference-group": "enabled", "default-authorization-mode": "deny-all"}
    )
    around.answer(ORDERS)

    await around.bring()

    assert (server.objects, server.pushed) == ({}, [])


async def test_what_is_asked_for_is_written_and_pushed_once_and_differences_only(
    around: Around, server: Server
) -> None:
    around.flags(STRICT)
    around.answer(ORDERS)
    around.answer(RETURNS, place="shop")
    for _ in range(3):
        await around.bring()
    first = server.document("knative-eventing")
    assert first.flags == Flags(transport_encryption=TransportEncryption.STRICT)
    assert (server.writes, sorted(subject for subject, _ in set(server.pushed))) == (
        2,
        ["headrace.security.knative-eventing", "headrace.security.shop"],
    )

    around.flags({"transport-encryption": "permissive"})
    await around.bring()

    second = server.document("knative-eventing")
    assert second.flags.transport_encryption is TransportEncryption.PERMISSIVE
    assert second.revision > first.revision
    _, message = next(one for one in reversed(server.pushed) if one[0].endswith("knative-eventing"))
    assert form.opened(message, "knative-eventing", KEY) == second.to_json()
    assert len(server.pushed) == 4, "each change of each place once"


async def test_policies_count_where_tokens_are_asked_for_each_in_its_place(around: Around, server: Server) -> None:
    around.answer(ORDERS, policies={"policies": ["p"]})
    around.answer(RETURNS, place="shop", policies={"policies": ["q"]})
    around.flags(STRICT)
    await around.bring()
    assert server.document("shop").channels == {}

    around.flags({"authentication-oidc": "enabled"})
    await around.bring()

    assert server.document("knative-eventing").channels == {"shop/orders": {"policies": ["p"]}}
    assert server.document("shop").channels == {"shop/returns": {"policies": ["q"]}}


async def test_after_a_restart_a_channel_that_was_not_heard_of_yet_keeps_its_policies(
    around: Around, server: Server
) -> None:
    around.flags({"authentication-oidc": "enabled"})
    around.answer(ORDERS, policies={"policies": ["p"]})
    around.answer(RETURNS, policies={"policies": ["q"]})
    await around.bring()
    before = server.document("knative-eventing")

    again = Around(server)
    again.channel(ORDERS, RETURNS)
    again.see(again.bundles)
    again.flags({"authentication-oidc": "enabled"})
    again.answer(ORDERS, policies={"policies": ["p"]})
    await again.bring()
    assert server.document("knative-eventing") == before

    again.channel(ORDERS)
    again.writer.changed()
    await again.bring()
    assert server.document("knative-eventing").channels == {"shop/orders": {"policies": ["p"]}}


async def test_who_may_not_see_the_flags_any_more_leaves_them_in_force(around: Around, server: Server) -> None:
    around.flags(STRICT)
    around.answer(ORDERS)
    await around.bring()

    blind = Around(server)
    blind.channel(ORDERS)
    blind.answer(ORDERS)
    await blind.bring()

    assert server.document("knative-eventing").flags.transport_encryption is TransportEncryption.STRICT


async def test_the_last_need_that_goes_is_told_first_and_then_nothing_is_left(
    around: Around, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    around.flags(STRICT)
    around.answer(ORDERS)
    await around.bring()

    around.flags({})
    await around.bring()
    told = server.document("knative-eventing")
    assert told.asks_for_nothing
    later = clock.wall() + security_writer.KEPT_EMPTY_SECONDS + 1
    monkeypatch.setattr(clock, "wall", lambda: later)
    await around.bring()
    assert server.objects == {}

    around.flags(STRICT)
    await around.bring()
    assert server.document("knative-eventing").revision > told.revision


@pytest.mark.parametrize("edited", [None, "{", json.dumps({"revision": 1})])
async def test_what_somebody_deletes_or_breaks_is_written_again(
    around: Around, server: Server, edited: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    around.flags(STRICT)
    around.answer(ORDERS)
    await around.bring()
    before, (path,) = server.document("knative-eventing"), server.objects
    if edited is None:
        del server.objects[path]
    else:
        server.objects[path]["data"] = {form.KEY: edited}

    monkeypatch.setattr(security_writer, "READ_AGAIN_SECONDS", -1.0)
    await around.bring()

    assert server.document("knative-eventing") == before


async def test_a_place_that_nobody_lets_us_write_in_hears_of_it_by_push(around: Around, server: Server) -> None:
    server.forbidden = True
    around.flags(STRICT)
    around.answer(ORDERS, place="shop")

    await around.bring()

    (subject, message), *_ = server.pushed
    assert (subject, form.opened(message, "shop", KEY) is not None) == ("headrace.security.shop", True)


async def test_without_nats_it_is_written_and_pushed_later(around: Around, server: Server) -> None:
    server.away = True
    around.flags(STRICT)
    around.answer(ORDERS)
    await around.bring()
    assert server.document("knative-eventing").revision

    server.away = False
    await around.bring()

    assert len(server.pushed) == 1


async def test_trust_bundles_are_gathered_whatever_their_keys(around: Around, server: Server) -> None:
    around.flags({})
    around.see(
        around.bundles, config_map("ours", {"ca.crt": f"remark\n{PEM}\n", "other": "text"}), config_map("b", {"x": PEM})
    )
    around.answer(ORDERS)

    await around.bring()

    assert server.document("knative-eventing").trust == PEM


async def test_policies_without_room_close_the_channels_of_their_namespace_and_no_neighbours(
    around: Around, server: Server
) -> None:
    around.flags({"authentication-oidc": "enabled"})
    around.channel(ORDERS, RETURNS, ("bank", "loans"))
    around.answer(ORDERS, policies={"policies": ["x" * form.LONGEST]})
    around.answer(RETURNS, policies={"policies": ["p"]})
    around.answer(("bank", "loans"), policies={"policies": ["q"]})

    await around.bring()

    found = server.document("knative-eventing").channels
    assert {name: set(entry) for name, entry in found.items()} == {
        "shop/orders": {"unreadable"},
        "shop/returns": {"unreadable"},
        "bank/loans": {"policies"},
    }


async def test_an_operator_that_leads_again_writes_no_policies_of_its_last_time(around: Around, server: Server) -> None:
    old, new = ({"policies": [{"name": name, "from": [name]}]} for name in ("old", "new"))
    around.flags({"authentication-oidc": "enabled"})
    around.answer(ORDERS, policies=old)
    await around.bring()
    found = server.document("knative-eventing")
    other = replace(found, revision=found.revision + 1, channels={"/".join(ORDERS): new})
    (body,) = server.objects.values()
    body["data"][form.KEY] = other.to_json().decode()
    for watch in around.writer.watches:
        watch.answered.set()
    leading = asyncio.create_task(around.writer.run())
    await asyncio.sleep(0.4)
    leading.cancel()
    assert server.document("knative-eventing").channels == {"/".join(ORDERS): new}


async def test_a_channel_with_functions_in_two_namespaces_has_its_policies_in_both(
    around: Around, server: Server
) -> None:
    policies = {"policies": [{"name": "till", "from": ["till"]}]}
    around.flags({"authentication-oidc": "enabled"})
    children = receive("knative-eventing"), receive("shop")
    around.writer.hear(ORDERS, HookResponse(children=children, security=policies))
    await around.bring()
    for place in ("knative-eventing", "shop"):
        assert server.document(place).channels == {"/".join(ORDERS): policies}


async def test_a_namespace_that_is_gone_is_left_alone(around: Around, server: Server) -> None:
    around.flags(STRICT)
    around.answer(ORDERS, "shop")
    await around.bring()
    server.objects.clear()
    server.gone = True
    around.channel(RETURNS)
    await around.bring()
    tried = server.tried
    await around.bring()
    assert (server.tried, around.writer._places) == (tried, set())

    server.gone = False
    around.answer(ORDERS, "shop")
    await around.bring()
    assert server.document("shop").flags.transport_encryption is TransportEncryption.STRICT

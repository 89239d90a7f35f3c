"""EventTypes are made of what functions tell: each once, few at a time, so many for a channel, none for others'."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import pytest

from headrace.core import names
from headrace.core.errors import HeadraceError, Refused, Unavailable
from headrace.core.event import event_kinds
from headrace.core.event.event_kinds import EventKind, KindNews
from headrace.io.nats.client import Client
from headrace_operator.channels import event_type, event_types
from headrace_operator.channels.event_types import EventTypes, Places
from headrace_operator.kube.api import Conflict, KubeApi, NoRight
from headrace_operator.kube.kinds import CHANNEL, Discovery, Kind
from headrace_operator.kube.watch import Cache
from tests.support.functions.channels import channel
from tests.support.waiting import until

SHARED = "knative-eventing"
MOST = 5


def key_of(place: str) -> bytes:
    return f"the key of {place}".encode()


class ApiServer:
    """Serves EventTypes, as the operator sees them."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.tried: list[str] = []
        self.trouble: HeadraceError | None = None
        self.refuses_list = False
        self.is_watched = 0
        self._version = 0

    async def list(self, _path: str, _selection: Mapping[str, str]) -> tuple[list[dict[str, Any]], str]:
        if self.refuses_list:
            raise NoRight("no", "the operator")
        return [dict(one) for one in self.objects.values()], str(self._version)

    async def watch(self, _path: str, _parameters: Mapping[str, str]) -> AsyncIterator[None]:
        self.is_watched += 1
        try:
            yield None
            await asyncio.Event().wait()
        finally:
            self.is_watched -= 1

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.tried.append(f"{path}/{body['metadata']['name']}")
        if self.trouble is not None:
            raise self.trouble
        if body["metadata"]["name"] in self.objects:
            raise Conflict("exists", status=409)
        return self.put(body)

    def put(self, body: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        body = body | {"metadata": body["metadata"] | {"resourceVersion": str(self._version), "uid": "u"}}
        self.objects[body["metadata"]["name"]] = body
        return body

    def types(self, name: str = "orders") -> list[str]:
        told = (event_type.told(one) for one in self.objects.values())
        return sorted(one[1] for one in told if one is not None and one[0][1] == name)


class Kinds:
    """The cluster's kinds, as `Discovery` gives them."""

    serves = True

    async def by_kind(self, api_version: str, kind: str) -> Kind | None:
        return Kind(api_version, kind, "eventtypes") if self.serves else None


class Hints:
    """A connection to NATS on which nothing ever comes."""

    def __init__(self) -> None:
        self.on_disconnect: list[Callable[[], None]] = []
        self.subjects: list[str] = []

    async def subscribe(self, subject: str, _heard: object) -> Hints:
        self.subjects.append(subject)
        return self

    async def ready(self, _seconds: float) -> None:
        pass

    async def close(self) -> None:
        self.subjects.clear()


class World:
    """The maker with all that it needs; three channels, of which one is a Broker's."""

    def __init__(self) -> None:
        self.server, self.kinds, self.hints = ApiServer(), Kinds(), Hints()
        self.said: list[tuple[str, str]] = []
        self.channels = Cache(CHANNEL)
        self.types = EventTypes(
            cast("KubeApi", self.server),
            cast("Discovery", self.kinds),
            self.channels,
            self.tell,
            Places(key_of, lambda: SHARED),
            namespace="",
            most=MOST,
        )
        for number, place in enumerate((("shop", "orders"), ("shop", "bills"), ("bank", "orders")), 1):
            self.put(*place, version=number)
        self.put("shop", "brokers", version=9, ownerReferences=[{"kind": "Broker", "name": "default"}])

    def tell(self, _channel: Mapping[str, Any], reason: str, words: str, *, warning: bool) -> None:
        assert warning
        self.said.append((reason, words))

    def put(self, namespace: str, name: str, version: int, **metadata: Any) -> None:
        body = channel(namespace=namespace, name=name, uid=f"uid-{namespace}-{name}")
        body["metadata"] |= {"resourceVersion": str(version)} | metadata
        self.channels.put(body)

    def hear(
        self, *types: str, name: str = "orders", namespace: str = "shop", place: str = SHARED, **left: int
    ) -> None:
        subject = names.channel(namespace, name).subject
        news = KindNews(
            {subject: [EventKind(one, "/s", "", "1.0") for one in types]}, left and {subject: sum(left.values())}
        )
        self.types.heard(names.kinds_subject(place), event_kinds.write(news, place, key_of(place)))

    @contextmanager
    def running(self) -> Iterator[asyncio.Task[None]]:
        task = asyncio.ensure_future(self.types.run(cast("Client", self.hints)))
        try:
            yield task
        finally:
            task.cancel()


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_types, "SECONDS_EACH", 0.0)
    monkeypatch.setattr(event_types, "AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(event_types, "LOOK_AGAIN_SECONDS", 0.02)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    found = World()
    found.types.ask_for(True)
    with found.running():
        await until("the EventTypes are watched", lambda: found.server.is_watched == 1)
        yield found


async def settled() -> None:
    await asyncio.sleep(0.05)


async def test_each_kind_is_made_once_however_often_it_is_told(world: World) -> None:
    world.hear("a", "b", "a")
    world.hear("a", place="shop")
    await until("both are made", lambda: world.server.types() == ["a", "b"])
    world.hear("a", "b")
    await settled()
    assert len(world.server.tried) == 2
    assert world.types.counts["made"] == 2
    assert world.hints.subjects == ["headrace.types.*"]


async def test_one_that_somebody_has_made_by_hand_under_another_name_is_enough() -> None:
    world = World()
    by_hand = event_type.body(channel(), EventKind("a", "/s", "", "1.0"))
    by_hand["metadata"]["name"] = "my-own"
    world.server.put(by_hand)
    world.types.ask_for(True)
    with world.running():
        await until("the EventTypes are watched", lambda: world.server.is_watched == 1)
        world.hear("a", "b")
        await until("the other one is made", lambda: world.server.types() == ["a", "b"])
    assert len(world.server.tried) == 1


async def test_one_that_is_there_already_is_no_trouble(world: World) -> None:
    # Another channel's auto-creation has made it a moment ago.
    world.server.objects[event_type.name(("shop", "orders"), EventKind("a", "/s", "", "1.0"))] = event_type.body(
        channel(), EventKind("a", "/s", "", "1.0")
    )
    world.hear("a", "b")
    await until("the other one is made", lambda: world.server.types() == ["a", "b"])
    assert (world.types.counts["made"], world.types.counts["refused"]) == (1, 0)


@pytest.mark.parametrize(
    ("place", "namespace", "made"),
    [
        pytest.param(SHARED, "shop", True, id="the shared functions, for anybody"),
        pytest.param("shop", "shop", True, id="a namespace's own, for it"),
        pytest.param("shop", "bank", False, id="a namespace's own, for another"),
    ],
)
async def test_functions_speak_for_the_channels_that_they_serve(
    world: World, place: str, namespace: str, made: bool
) -> None:
    world.hear("a", namespace=namespace, place=place)
    await settled()
    assert bool(world.server.tried) is made


async def test_nobody_else_speaks_for_any(world: World) -> None:
    subject = names.channel("shop", "orders").subject
    news = KindNews({subject: [EventKind("a", "/s", "", "1.0")]}, {})
    for place, key in (("shop", key_of("bank")), ("shop", b""), (SHARED, key_of("shop"))):
        world.types.heard(names.kinds_subject(place), event_kinds.write(news, place, key))
    world.types.heard(names.kinds_subject("shop"), b"nonsense")
    await settled()
    assert world.server.tried == []


async def test_no_event_type_is_made_for_a_brokers_channel_nor_for_one_that_goes_or_is_gone(world: World) -> None:
    world.hear("a", name="brokers")
    world.hear("a", name="unknown")
    world.put("shop", "bills", version=20, deletionTimestamp="2026-01-01T00:00:00Z")
    world.hear("a", name="bills")
    await settled()
    assert world.server.tried == []


async def test_a_channel_gets_so_many_and_its_people_are_told(world: World) -> None:
    world.hear(*(f"t{number}" for number in range(2 * MOST)))
    world.hear("a", name="bills")
    await until("those of both channels are made", lambda: len(world.server.objects) == MOST + 1)
    world.hear("more")
    await settled()
    assert len(world.server.types()) == MOST
    assert world.types.counts["left_out"] == MOST + 1
    assert {reason for reason, _ in world.said} == {"EventTypesLeftOut"}
    assert "as many as OPERATOR_EVENT_TYPES lets it" in world.said[0][1]


async def test_what_a_function_had_no_room_for_is_told_of_too(world: World) -> None:
    world.hear(left=12)
    assert world.types.counts["left_out"] == 12
    assert world.said[0][0] == "EventTypesLeftOut"


async def test_channels_take_turns(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_types, "SECONDS_EACH", 0.005)
    world.hear("a1", "a2", "a3", "a4")
    world.hear("b1", name="bills")
    await until("all are made", lambda: len(world.server.tried) == 5)
    assert "bills" in "".join(world.server.tried[:3])


async def test_so_many_a_second_and_no_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_types, "SECONDS_EACH", 60.0)
    world.hear("a", "b", "c")
    await settled()
    assert len(world.server.tried) == 1


async def test_while_the_flag_is_off_nothing_is_heard_watched_or_made() -> None:
    world = World()
    with world.running():
        await settled()
        world.hear("a")
        await settled()
        assert (world.server.is_watched, world.hints.subjects, world.server.tried) == (0, [], [])
        world.types.ask_for(True)
        await until("the EventTypes are watched", lambda: world.server.is_watched == 1)
        world.types.ask_for(False)
        await until("nothing is watched any more", lambda: world.server.is_watched == 0)
        assert world.hints.subjects == []
        world.types.ask_for(True)
        await until("the EventTypes are watched again", lambda: world.server.is_watched == 1)


async def test_a_cluster_that_does_not_serve_them_is_asked_again() -> None:
    world = World()
    world.kinds.serves = False
    world.types.ask_for(True)
    with world.running():
        await settled()
        assert world.server.is_watched == 0
        world.kinds.serves = True
        await until("the EventTypes are watched", lambda: world.server.is_watched == 1)


async def test_without_the_right_to_make_them_the_channel_says_so_and_the_api_server_is_left_alone(
    world: World,
) -> None:
    world.server.trouble = NoRight("no", "the operator")
    world.hear("a", "b", "c")
    await settled()
    assert len(world.server.tried) == 1
    assert [reason for reason, _ in world.said] == ["EventTypesNotMade"]
    assert "docs/rbac.md" in world.said[0][1]


async def test_without_the_right_to_see_them_none_is_made_and_the_channel_says_so() -> None:
    world = World()
    world.server.refuses_list = True
    world.types.ask_for(True)
    with world.running():
        await until("the maker hears", lambda: bool(world.hints.subjects))
        world.hear("a")
        await settled()
    assert world.server.tried == []
    assert [reason for reason, _ in world.said] == ["EventTypesNotMade"]


@pytest.mark.parametrize("trouble", [Refused("the webhook says no", status=400), Unavailable("away")])
async def test_another_trouble_with_one_stops_none_of_the_others(world: World, trouble: HeadraceError) -> None:
    world.server.trouble = trouble
    world.hear("a")
    await until("it is tried", lambda: len(world.server.tried) == 1)
    world.server.trouble = None
    world.hear("b")
    await until("the next one is made", lambda: "b" in world.server.types())

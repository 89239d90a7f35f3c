"""Whatever the list of entries does, every live Subscription keeps its one consumer, with its position."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.delivery.subscriber import SubscriberState
from tests.support.kube.flapping import GRACE, World

STEPS = ["create", "change", "delete", "replace", "write", "write", "write", "sync", "sync", "catch_up", "wait"]
steps = st.tuples(st.sampled_from(STEPS), st.integers(0, 3), st.integers(0, 4))


def play(world: World, moves: Iterable[tuple[str, int, int]]) -> None:
    for kind, number, much in moves:
        name = f"s{number}"
        match kind:
            case "write":
                world.write(name, behind=much)
            case "sync" | "catch_up":
                getattr(world, kind)()
            case "wait":
                world.wait((0.01, 0.7, 20, 59, 61)[much])
            case _:
                getattr(world, kind)(name)


def settled(world: World) -> None:
    """In the end every Subscription has its one consumer, and there are no others."""
    world.settle()
    assert set(world.server.ready()) == {one.uid for one in world.live.values()}
    assert set(world.history[-1]) == {one.uid for one in world.live.values()}
    for one in world.server.serving().values():
        if one.state is SubscriberState.READY:
            assert one.generation == world.live[one.name].generation
            assert one.subscriber is not None
            assert one.subscriber.uri == f"http://{one.name}/{one.generation}"
    world.wait(GRACE.total_seconds())
    world.sync()
    assert len(world.server.consumers) == len(world.live)


@given(st.lists(steps, max_size=40))
def test_whatever_the_list_does_no_live_subscription_loses_its_position(moves: list[tuple[str, int, int]]) -> None:
    world = World()

    play(world, moves)

    settled(world)


@pytest.mark.parametrize("seed", range(2))
def test_fifty_subscriptions_created_changed_and_deleted_in_random_orders(seed: int) -> None:
    chance = random.Random(seed)
    world = World()
    for name in range(50):
        world.create(f"s{name}")

    play(
        world,
        [(chance.choice(STEPS), chance.randrange(50), min(4, int(chance.expovariate(1)))) for _ in range(600)],
    )

    settled(world)

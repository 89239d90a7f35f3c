"""Generations of channels and Subscriptions in files: only their reader can count them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace_cli.laptop.file_channels import FileChannels
from headrace_cli.laptop.file_world import FileWorld
from tests.support.laptop.manifest_files import CHANNEL, SUBSCRIPTION, Read, reader

EDITED = SUBSCRIPTION.replace("/events", "/v2")


@pytest.fixture
def read(tmp_path: Path) -> Read:
    return reader(tmp_path)


class Clocked:
    """A world whose clock is set by hand."""

    def __init__(self) -> None:
        self._now = 0.0
        self._world = FileWorld(lambda: self._now)

    def after(self, found: FileChannels, milliseconds: int) -> tuple[int, int]:
        """The generations of the channel and of its subscriber, once these files are applied at that time."""
        self._now = milliseconds / 1000
        self._world.apply(found.channels)
        [channel] = self._world.channels
        return channel["metadata"]["generation"], channel["spec"]["subscribers"][0]["generation"]

    def take_down(self) -> None:
        """The files hold no channel any more."""
        self._world.apply({})


@pytest.fixture
def world() -> Clocked:
    return Clocked()


def test_they_come_from_the_clock_and_stay_while_nothing_changes(read: Read, world: Clocked) -> None:
    assert world.after(read(CHANNEL, SUBSCRIPTION), 1_000) == (1_000, 1_000)
    assert world.after(read(CHANNEL, SUBSCRIPTION), 2_000) == (1_000, 1_000)


def test_an_edited_subscription_gets_a_later_one_and_so_does_its_channel(read: Read, world: Clocked) -> None:
    world.after(read(CHANNEL, SUBSCRIPTION), 1_000)
    assert world.after(read(CHANNEL, EDITED), 2_000) == (2_000, 2_000)


def test_an_edited_order_is_an_edit_of_the_subscription(read: Read, world: Clocked) -> None:
    world.after(read(CHANNEL, SUBSCRIPTION), 1_000)
    ordered = SUBSCRIPTION.replace(
        "{name: billing}", "{name: billing, annotations: {headrace.dev/delivery-order: ordered}}"
    )
    assert world.after(read(CHANNEL, ordered), 2_000) == (2_000, 2_000)


def test_an_edited_channel_leaves_its_subscribers_alone(read: Read, world: Clocked) -> None:
    world.after(read(CHANNEL, SUBSCRIPTION), 1_000)
    assert world.after(read(CHANNEL + "spec: {stream: {config: {maxMsgs: 5}}}\n", SUBSCRIPTION), 2_000) == (
        2_000,
        1_000,
    )


def test_one_grows_even_when_the_clock_does_not(read: Read, world: Clocked) -> None:
    world.after(read(CHANNEL, SUBSCRIPTION), 1_000)
    assert world.after(read(CHANNEL, EDITED), 900) == (1_001, 1_001)


def test_one_of_null_is_none(read: Read, world: Clocked) -> None:
    channel, subscription = (text.replace("{name:", "{generation: null, name:") for text in (CHANNEL, SUBSCRIPTION))
    assert world.after(read(channel, subscription), 5) == (5, 5)
    assert world.after(read(channel, subscription + "  delivery: {retry: 1}\n"), 6) == (6, 6)


def test_one_that_is_written_counts(read: Read, world: Clocked) -> None:
    channel, subscription = (text.replace("{name:", "{generation: 7, name:") for text in (CHANNEL, SUBSCRIPTION))
    assert world.after(read(channel, subscription), 5_000) == (7, 7)


def test_a_channel_that_comes_back_while_it_is_taken_down_is_another_one(read: Read, world: Clocked) -> None:
    found = read(CHANNEL, SUBSCRIPTION)
    world.after(found, 1_000)
    world.take_down()
    assert world.after(found, 2_000) == (2_000, 2_000)

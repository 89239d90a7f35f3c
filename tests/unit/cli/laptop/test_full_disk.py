"""A full disk: told of once, and nats-server started again when there is room, but not for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace_cli.laptop.full_disk import FullDisk

# As nats-server 2.15.1 writes it.
FULL = (
    "[9192] 2026/11/28 04:05:12.579101 [ERR] JetStream failed to store a msg on stream '$G > KN_DEFAULT__C': "
    "write /data/jetstream/$G/streams/KN_DEFAULT__C/msgs/1.blk: no space left on device\n"
)
MIB = 1 << 20


class Machine:
    """A server's log, a disk, and the reasons for which the server was started again."""

    def __init__(self, directory: Path) -> None:
        self.free = 0
        self.restarts: list[str] = []
        self.log = directory / "nats-server.log"
        self.log.write_text("[1] [INF] Starting nats-server\n" + FULL)
        self.disk = FullDisk(self.log, lambda: self.free, self.restarts.append)

    def says(self, line: str) -> None:
        with self.log.open("a") as log:
            log.write(line)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_server_is_started_again_once_there_is_room(machine: Machine) -> None:
    machine.says(FULL)
    machine.disk.look(0)
    assert machine.restarts == []

    machine.free = 64 * MIB
    machine.disk.look(2)
    machine.disk.look(4)

    assert machine.restarts == ["there is room on the disk again"]


def test_a_little_room_is_not_enough(machine: Machine) -> None:
    machine.says(FULL)
    machine.free = 64 * MIB - 1

    machine.disk.look(0)

    assert machine.restarts == []


def test_other_words_and_those_of_an_earlier_run_mean_nothing(machine: Machine) -> None:
    machine.free = 64 * MIB
    machine.says("[1] [WRN] Readloop processing time: 2s\n")

    machine.disk.look(0)

    assert machine.restarts == []


def test_where_a_start_does_not_help_the_next_comes_a_minute_later(machine: Machine) -> None:
    machine.free = 64 * MIB
    for second in range(0, 120, 2):
        machine.says(FULL)
        machine.disk.look(second)

    assert len(machine.restarts) == 2

"""The disk of the power failures: what was synced is there when power is back, and what was not is gone, or torn."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.disk.lossy_disk import LossyDisk, not_here
from tests.support.disk.lossy_tree import PAGE, Kept

pytestmark = pytest.mark.skipif(bool(not_here()), reason=not_here())


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LossyDisk]:
    with LossyDisk(tmp_path) as disk:
        yield disk


def write(path: Path, data: bytes, *, sync: bool, flags: int = 0) -> None:
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | flags)
    assert os.write(descriptor, data) == len(data)
    if sync:
        os.fsync(descriptor)
    os.close(descriptor)


def test_what_was_synced_stays_and_what_came_after_is_gone(disk: LossyDisk) -> None:
    write(disk.root / "kept", b"synced", sync=True)
    write(disk.root / "kept", b" and more", sync=False)
    write(disk.root / "gone", b"never synced", sync=False)
    assert (disk.root / "kept").read_bytes() == b"synced and more"

    lost = disk.cut(1, Kept.NOTHING)

    assert os.listdir(disk.root) == ["kept"]
    assert (disk.root / "kept").read_bytes() == b"synced"
    assert lost == len(b" and more" + b"never synced")


def test_a_file_that_is_opened_for_it_syncs_every_write(disk: LossyDisk) -> None:
    write(disk.root / "file", b"by O_SYNC", sync=False, flags=os.O_SYNC)

    disk.cut(1, Kept.NOTHING)

    assert (disk.root / "file").read_bytes() == b"by O_SYNC"


def test_a_rename_that_was_not_synced_is_undone(disk: LossyDisk) -> None:
    write(disk.root / "old", b"the first", sync=True)
    write(disk.root / "new.tmp", b"the second", sync=True)
    os.rename(disk.root / "new.tmp", disk.root / "old")
    assert (disk.root / "old").read_bytes() == b"the second"

    disk.cut(1, Kept.NOTHING)

    assert sorted(os.listdir(disk.root)) == ["new.tmp", "old"]
    assert (disk.root / "old").read_bytes() == b"the first"


def test_by_posix_alone_a_name_lasts_only_with_its_directory(tmp_path: Path) -> None:
    with LossyDisk(tmp_path, strict=True) as disk:
        write(disk.root / "named", b"synced", sync=True)
        directory = os.open(disk.root, os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)
        write(disk.root / "nameless", b"synced", sync=True)

        disk.cut(1, Kept.NOTHING)

        assert os.listdir(disk.root) == ["named"]


def test_chance_leaves_nothing_or_all_or_a_part_or_pages_out_of_turn(disk: LossyDisk) -> None:
    pages = [bytes([65 + number]) * PAGE for number in range(8)]
    found = set()
    for seed in range(60):
        path = disk.root / f"file{seed}"
        write(path, b"", sync=True)
        for page in pages:
            write(path, page, sync=False)
        disk.cut(seed)
        found.add(path.read_bytes())

    whole = b"".join(pages)
    assert {b"", whole} <= found
    assert any(0 < len(one) < len(whole) and whole.startswith(one) for one in found)
    assert any(bytes(PAGE) in one for one in found), "no page was left out between others"
    assert any(len(one) % PAGE for one in found), "no write was torn"

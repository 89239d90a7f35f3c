"""What a file system holds: as programs see it, and as a loss of power leaves it. Pure, but for the chance it is given.

Everything that was not synced is in memory only. A loss of power keeps of it what a disk may have got by then:

* of the changes to directories (create, rename, remove) those up to some moment, in their order, as journals do it;
* of each file nothing, all writes up to some moment with the last one torn at a sector, or any of its pages, whatever
  was written first; pages in between that did not make it read as they were before, or as zeros.

A sync of a file makes its content last, and all changes to directories until then, as the journals of ext4, XFS and
btrfs do. Where a `strict` tree is asked for, it is as POSIX has it: only a sync of the directory makes a name last.
Without any sync Linux writes names down after 5 s (a commit of the journal) and content after 30 s; so does this.
"""

from __future__ import annotations

import errno
import math
import random
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

ROOT = 1
PAGE, SECTOR = 4096, 512

# Seconds after which Linux writes by itself: ext4's `commit`, and `vm.dirty_expire_centisecs`.
NAMES_LAST, CONTENT_LASTS = 5.0, 30.0

# A name in a directory now leads to this node; None: to none.
Naming = tuple[int, bytes, int | None]


class Kept(Enum):
    """How much of what was not synced a loss of power leaves: nothing, or what chance will have."""

    NOTHING = "nothing"
    SOME = "some"


@dataclass
class File:
    """Attributes:
    data: as programs see it; `synced`: as it was when it was last synced.
    since: what was done after that and when, in order: bytes at an offset, or None at a new size.
    """

    mode: int
    data: bytearray = field(default_factory=bytearray)
    synced: bytearray = field(default_factory=bytearray)
    since: deque[tuple[float, int, bytes | None]] = field(default_factory=deque)
    modified: int = field(default_factory=time.time_ns)

    def write(self, offset: int, data: bytes) -> None:
        self._do(offset, data)

    def truncate(self, size: int) -> None:
        self._do(size, None)

    def _do(self, at: int, data: bytes | None) -> None:
        _apply(self.data, at, data)
        self.since.append((time.monotonic(), at, data))
        self.modified = time.time_ns()

    def sync(self, until: float = math.inf) -> None:
        """Make last what was done until then."""
        while self.since and self.since[0][0] <= until:
            _, at, data = self.since.popleft()
            _apply(self.synced, at, data)

    def lose(self, chance: random.Random, kept: Kept) -> int:
        """The bytes that were not synced; some of them may be left."""
        self.sync(time.monotonic() - CONTENT_LASTS)
        lost = sum(len(data or b"") for _, _, data in self.since)
        if kept is Kept.SOME and self.since:
            chance.choice((self._until_some_moment, self._some_pages, lambda _: None))(chance)
        self.data, self.since = bytearray(self.synced), deque()
        return lost

    def _until_some_moment(self, chance: random.Random) -> None:
        for _ in range(chance.randint(0, len(self.since))):
            _, at, data = self.since.popleft()
            _apply(self.synced, at, data)
        if self.since and (data := self.since[0][2]):
            at = self.since[0][1]
            end = (at + chance.randint(0, len(data))) // SECTOR * SECTOR
            _apply(self.synced, at, data[: max(0, end - at)])

    def _some_pages(self, chance: random.Random) -> None:
        before = bytes(self.synced)
        for start in range(0, len(self.data), PAGE):
            page = bytes(self.data[start : start + PAGE])
            if page != before[start : start + PAGE] and chance.random() < 0.5:
                _apply(self.synced, start, page)


@dataclass
class Directory:
    """Attributes:
    names: as programs see them; `synced`: those that last.
    """

    mode: int
    names: dict[bytes, int] = field(default_factory=dict)
    synced: dict[bytes, int] = field(default_factory=dict)
    modified: int = field(default_factory=time.time_ns)


class LossyTree:
    """Nodes by their number; whoever asks for what is not there gets an OSError."""

    def __init__(self, *, strict: bool = False) -> None:
        self._strict = strict
        self._nodes: dict[int, File | Directory] = {ROOT: Directory(0o40755)}
        self._next = ROOT + 1
        # What was done to names and does not last yet, and when; what is in one tuple lasts together or not at all.
        self._journal: list[tuple[float, tuple[Naming, ...]]] = []

    def node(self, number: int) -> File | Directory:
        found = self._nodes.get(number)
        if found is None:
            raise OSError(errno.ESTALE, "no such node")
        return found

    def file(self, number: int) -> File:
        found = self.node(number)
        if not isinstance(found, File):
            raise OSError(errno.EISDIR, "a directory")
        return found

    def directory(self, number: int) -> Directory:
        found = self.node(number)
        if not isinstance(found, Directory):
            raise OSError(errno.ENOTDIR, "no directory")
        return found

    def find(self, parent: int, name: bytes) -> int:
        found = self.directory(parent).names.get(name)
        if found is None:
            raise OSError(errno.ENOENT, "no such name")
        return found

    def make(self, parent: int, name: bytes, node: File | Directory) -> int:
        if name in self.directory(parent).names:
            raise OSError(errno.EEXIST, "it is there")
        number, self._next = self._next, self._next + 1
        self._nodes[number] = node
        self._change((parent, name, number))
        return number

    def remove(self, parent: int, name: bytes) -> None:
        node = self.node(self.find(parent, name))
        if isinstance(node, Directory) and node.names:
            raise OSError(errno.ENOTEMPTY, "not empty")
        self._change((parent, name, None))

    def rename(self, parent: int, name: bytes, new_parent: int, new_name: bytes) -> None:
        moved = self.find(parent, name)
        there = self.directory(new_parent).names.get(new_name)
        if there is not None and isinstance(old := self.node(there), Directory) and old.names:
            raise OSError(errno.ENOTEMPTY, "not empty")
        self._change((parent, name, None), (new_parent, new_name, moved))

    def sync(self, number: int) -> None:
        node = self.node(number)
        if isinstance(node, File):
            node.sync()
        lasting, self._journal = self._journal, []
        if self._strict:
            self._journal = [one for one in lasting if all(parent != number for parent, _, _ in one[1])]
            lasting = [one for one in lasting if any(parent == number for parent, _, _ in one[1])]
        self._keep(lasting)

    def sync_all(self) -> None:
        for node in self._nodes.values():
            if isinstance(node, File):
                node.sync()
        self._keep(self._journal)
        self._journal.clear()

    def lose_power(self, chance: random.Random, kept: Kept) -> int:
        """Go back to what lasts; the bytes of files that had not been synced."""
        old = sum(at < time.monotonic() - NAMES_LAST for at, _ in self._journal)
        self._keep(self._journal[: chance.randint(old, len(self._journal)) if kept is Kept.SOME else old])
        self._journal.clear()
        lost = sum(node.lose(chance, kept) for node in self._nodes.values() if isinstance(node, File))
        self._nodes = dict(self._reached(ROOT))
        return lost

    def _change(self, *namings: Naming) -> None:
        for parent, name, number in namings:
            directory = self.directory(parent)
            _name(directory.names, name, number)
            directory.modified = time.time_ns()
        self._journal.append((time.monotonic(), namings))

    def _keep(self, changes: Sequence[tuple[float, tuple[Naming, ...]]]) -> None:
        for parent, name, number in (naming for _, change in changes for naming in change):
            _name(self.directory(parent).synced, name, number)

    def _reached(self, number: int) -> Iterator[tuple[int, File | Directory]]:
        node = self.node(number)
        yield number, node
        if isinstance(node, Directory):
            node.names = dict(node.synced)
            for child in node.names.values():
                yield from self._reached(child)


def _apply(content: bytearray, at: int, data: bytes | None) -> None:
    """Do to a file's content what was done: bytes at an offset, or a new size."""
    if data is None:
        del content[at:]
    if len(content) < at:
        content.extend(bytes(at - len(content)))
    if data is not None:
        content[at : at + len(data)] = data


def _name(names: dict[bytes, int], name: bytes, number: int | None) -> None:
    if number is None:
        names.pop(name, None)
    else:
        names[name] = number

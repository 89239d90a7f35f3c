"""`python -m tests.support.disk.fuse DIRECTORY`: a file system in memory that loses what was not synced.

It speaks the kernel's own protocol on /dev/fuse (linux/fuse.h), as much of it as nats-server makes the kernel ask, and
needs root and nothing else. The mount is in a namespace of this process, so it ends with it, however it ends; others
reach it by /proc/PID/root. Commands come on stdin, one a line, each is answered by a line: `sync` is as sync(1), and
`cut SEED nothing|some` is a loss of power. It says `mounted` first, and ends with its stdin.
"""

from __future__ import annotations

import ctypes
import errno
import os
import random
import select
import struct
import sys
from collections.abc import Callable

from tests.support.disk.lossy_tree import Directory, File, Kept, LossyTree

MAJOR, MINOR = 7, 31
MOST_WRITE, MOST_PAGES = 1 << 20, 256
ATOMIC_TRUNCATE, BIG_WRITES, PAGES_GIVEN = 1 << 3, 1 << 5, 1 << 22
# Nothing is cached by the kernel: what programs read is what the tree has.
DIRECT_IO = 1
SIZE_GIVEN = 1 << 3
BLOCKS, BLOCK_SIZE = 1 << 22, 4096
CLONE_NEWNS, MS_REC, MS_PRIVATE, DETACH = 0x20000, 0x4000, 0x40000, 2

HEAD = struct.Struct("<IIQQIIIHH")
ATTRIBUTES = struct.Struct("<QQQQQQIIIIIIIIII")

libc = ctypes.CDLL(None, use_errno=True)


def _demand(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


class Served:
    """One mount of a tree; another one follows when power was lost."""

    def __init__(self, tree: LossyTree, place: str) -> None:
        self._tree = tree
        self._place = place.encode()
        self.device = os.open("/dev/fuse", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        options = f"fd={self.device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},max_read={MOST_WRITE}"
        _demand(libc.mount(b"lossy", self._place, b"fuse.lossy", 0, options.encode()), "mount")
        self._answers: dict[int, Callable[[int, memoryview], bytes]] = {
            1: self._lookup,
            3: lambda node, _: self._attributes(node),
            4: self._set_attributes,
            9: self._mkdir,
            10: self._remove,
            11: self._remove,
            12: lambda node, body: self._rename(node, body, 8),
            14: self._open,
            15: self._read,
            16: self._write,
            17: lambda _node, _body: struct.pack("<QQQQQIIII24x", *(BLOCKS,) * 5, BLOCK_SIZE, 255, BLOCK_SIZE, 0),
            18: _nothing,
            20: self._sync,
            25: _nothing,
            26: self._begin,
            27: _opened,
            28: self._names,
            29: _nothing,
            30: self._sync,
            35: self._create,
            45: lambda node, body: self._rename(node, body, 16),
        }

    def end(self) -> None:
        """Whoever still has a file open gets errors from now on."""
        libc.umount2(self._place, DETACH)
        os.close(self.device)

    def answer_waiting(self) -> None:
        """Answer all that the kernel has asked by now."""
        while True:
            try:
                asked = memoryview(os.read(self.device, MOST_WRITE + 8192))
            except BlockingIOError:
                return
            except OSError as error:
                # ENOENT: the request was interrupted meanwhile.
                if error.errno != errno.ENOENT:
                    raise
                continue
            self._answer(asked)

    def _answer(self, asked: memoryview) -> None:
        _, operation, unique, node = HEAD.unpack_from(asked)[:4]
        if operation in (2, 36, 42):
            # Forget, and interrupt: nobody waits for an answer.
            return
        code, body = 0, b""
        try:
            known = self._answers.get(operation)
            if known is None:
                raise OSError(errno.ENOSYS, "not here")
            body = known(node, asked[HEAD.size :])
        except OSError as error:
            code = -(error.errno or errno.EIO)
        try:
            os.write(self.device, struct.pack("<IiQ", 16 + len(body), code, unique) + body)
        except FileNotFoundError:
            # Whoever asked was killed meanwhile.
            return

    def _begin(self, _node: int, body: memoryview) -> bytes:
        _, _, readahead = struct.unpack_from("<III", body)
        flags = ATOMIC_TRUNCATE | BIG_WRITES | PAGES_GIVEN
        return struct.pack("<IIIIHHIIHHI28x", MAJOR, MINOR, readahead, flags, 64, 48, MOST_WRITE, 1, MOST_PAGES, 0, 0)

    def _lookup(self, parent: int, body: memoryview) -> bytes:
        return self._entry(self._tree.find(parent, _text(body)))

    def _entry(self, number: int) -> bytes:
        return struct.pack("<QQQQII", number, 0, 0, 0, 0, 0) + self._stat(number)

    def _attributes(self, number: int) -> bytes:
        return bytes(16) + self._stat(number)

    def _stat(self, number: int) -> bytes:
        node = self._tree.node(number)
        size = len(node.data) if isinstance(node, File) else BLOCK_SIZE
        seconds, rest = divmod(node.modified, 10**9)
        times = (seconds,) * 3 + (rest,) * 3
        blocks = -(-size // 512)
        return ATTRIBUTES.pack(number, size, blocks, *times, node.mode, 1, os.getuid(), os.getgid(), 0, BLOCK_SIZE, 0)

    def _set_attributes(self, number: int, body: memoryview) -> bytes:
        valid, _, _, size = struct.unpack_from("<IIQQ", body)
        if valid & SIZE_GIVEN:
            self._tree.file(number).truncate(size)
        return self._attributes(number)

    def _mkdir(self, parent: int, body: memoryview) -> bytes:
        mode, _ = struct.unpack_from("<II", body)
        return self._entry(self._tree.make(parent, _text(body[8:]), Directory(0o40000 | mode & 0o777)))

    def _remove(self, parent: int, body: memoryview) -> bytes:
        self._tree.remove(parent, _text(body))
        return b""

    def _rename(self, parent: int, body: memoryview, skipped: int) -> bytes:
        (to,) = struct.unpack_from("<Q", body)
        old, new = bytes(body[skipped:]).split(b"\0")[:2]
        self._tree.rename(parent, old, to, new)
        return b""

    def _create(self, parent: int, body: memoryview) -> bytes:
        _, mode = struct.unpack_from("<II", body)
        number = self._tree.make(parent, _text(body[16:]), File(0o100000 | mode & 0o777))
        return self._entry(number) + _opened(number, body)

    def _open(self, number: int, body: memoryview) -> bytes:
        (flags,) = struct.unpack_from("<I", body)
        if flags & os.O_TRUNC:
            self._tree.file(number).truncate(0)
        return _opened(number, body)

    def _read(self, number: int, body: memoryview) -> bytes:
        _, offset, size = struct.unpack_from("<QQI", body)
        return bytes(self._tree.file(number).data[offset : offset + size])

    def _write(self, number: int, body: memoryview) -> bytes:
        _, offset, size, _, _, flags, _ = struct.unpack_from("<QQIIQII", body)
        self._tree.file(number).write(offset, bytes(body[40 : 40 + size]))
        if flags & os.O_DSYNC:
            self._tree.sync(number)
        return struct.pack("<II", size, 0)

    def _sync(self, number: int, _body: memoryview) -> bytes:
        self._tree.sync(number)
        return b""

    def _names(self, number: int, body: memoryview) -> bytes:
        _, begin, most = struct.unpack_from("<QQI", body)
        found = b""
        for place, (name, child) in enumerate(list(self._tree.directory(number).names.items())[begin:], begin + 1):
            kind = self._tree.node(child).mode >> 12
            entry = struct.pack("<QQII", child, place, len(name), kind) + name
            entry += bytes(-len(entry) % 8)
            if len(found) + len(entry) > most:
                break
            found += entry
        return found


def _text(body: memoryview) -> bytes:
    return bytes(body).split(b"\0", 1)[0]


def _nothing(_node: int, _body: memoryview) -> bytes:
    return b""


def _opened(_node: int, _body: memoryview) -> bytes:
    return struct.pack("<QIi", 0, DIRECT_IO, 0)


def main() -> None:
    place, *options = sys.argv[1:]
    _demand(libc.unshare(CLONE_NEWNS), "a mount namespace")
    _demand(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "a private mount namespace")
    tree = LossyTree(strict="strict" in options)
    served = Served(tree, place)
    print("mounted", flush=True)
    poll = select.poll()
    poll.register(sys.stdin.fileno(), select.POLLIN)
    poll.register(served.device, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if served.device in ready:
            served.answer_waiting()
        if sys.stdin.fileno() not in ready:
            continue
        match sys.stdin.readline().split():
            case ["sync"]:
                tree.sync_all()
                print("synced", flush=True)
            case ["cut", seed, kept]:
                poll.unregister(served.device)
                served.end()
                lost = tree.lose_power(random.Random(int(seed)), Kept(kept))
                served = Served(tree, place)
                poll.register(served.device, select.POLLIN)
                print(lost, flush=True)
            case _:
                return


if __name__ == "__main__":
    main()

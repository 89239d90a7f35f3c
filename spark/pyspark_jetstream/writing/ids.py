"""`Nats-Msg-Id`s that are the same whenever the same row is written again. Pure.

    events     source and id, as `receive` makes it: an event keeps its id with every publisher
    messages   s.<run, epoch, partition>.<content>[.<which of equal ones>]

A message's id is of its content and not of the row's number, since after a shuffle the rows of a partition may come in
another order: numbers would then give one row the id of another, and the server would drop a message that it never had.
Equal rows are told apart by counting them. The counts are forgotten every `BLOCK_ROWS` rows, so that memory is bounded;
the block is in the hash, so that nothing is lost by it. Ids are short, as the server keeps each for the length of its
window.
"""

from __future__ import annotations

from binascii import b2a_base64
from hashlib import blake2b

BLOCK_ROWS = 131_072


def prefix(run: str, epoch: int, partition: int) -> str:
    """The beginning of all ids of one partition of one epoch, and of no others."""
    text = f"{len(run)}:{run}:{epoch}:{partition}"
    return f"s.{_short(blake2b(text.encode(), digest_size=9).digest())}."


class ContentIds:
    """The ids of one partition; `of` is called once per row, in any order."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._block = 0
        self._seen: dict[int, int] = {}

    def of(self, row: int, subject: str, block: bytes, data: bytes) -> str:
        """Args:
        row: the row's number in the partition, from 0; faulty rows count.
        """
        number = row // BLOCK_ROWS
        if number != self._block:
            self._block, self._seen = number, {}
        # Lengths come first, so that no piece of one part can be taken for another part's.
        head = f"{number}:{len(subject)}:{len(block)}:{subject}".encode()
        digest = blake2b(head + block + data, digest_size=15).digest()
        key = int.from_bytes(digest[:8], "big")
        count = self._seen.get(key, 0)
        self._seen[key] = count + 1
        return f"{self._prefix}{_short(digest)}.{count}" if count else f"{self._prefix}{_short(digest)}"


def _short(digest: bytes) -> str:
    # The digests' lengths are multiples of three, so there is no padding.
    return b2a_base64(digest, newline=False).decode()

"""Runs of messages that have nearly everything in common, as the hot paths get them: PubAcks, and what a pull brings.

What they have in common is read once, and no value is made per message. Runs are taken only from the start of what was
read, and end, without judging, at whatever is different: the Decoder goes on from there, one by one. Whoever does not
want runs gets the same messages as `Arrival`s.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from headrace.core.nats_wire.frames import Arrival
from headrace.core.nats_wire.headers import NO_HEADERS, PLAIN_START, Headers

_CRLF = b"\r\n"
# Of one connection: those of PubAcks are few, those of other answers are not worth more memory.
MOST_SIZES = 1000
# What is taken out of the bytes is used while it is still in the processor's cache.
MOST_PULLED = 32
_BLOCK = _CRLF + PLAIN_START
# Their own constructors take half the time of those written in Python.
_new = tuple.__new__
_new_object = object.__new__


class Answered(NamedTuple):
    """Messages without headers and reply on one inbox, whose subjects differ by a number at their end.

    Attributes:
        stem: of their subjects.
        numbers: the rest of each subject, as its digits came.
        answers: the data of each.
    """

    stem: bytes
    sid: int
    numbers: list[bytes]
    answers: list[bytes]

    def arrivals(self) -> list[Arrival]:
        stem = text(self.stem)
        pairs = zip(self.numbers, self.answers, strict=True)
        return [
            _new(Arrival, (stem + number.decode(), "", NO_HEADERS, data, "", "", self.sid)) for number, data in pairs
        ]


class Pulled(NamedTuple):
    """Messages of one subject, with headers, without a status, and with a reply subject each, which takes the ack."""

    subject: str
    sid: int
    replies: list[bytes]
    blocks: list[bytes]
    payloads: list[bytes]

    def arrivals(self) -> list[Arrival]:
        columns = zip(self.replies, self.blocks, self.payloads, strict=True)
        return [self._arrival(*column) for column in columns]

    def _arrival(self, reply: bytes, block: bytes, data: bytes) -> Arrival:
        headers = _new_object(Headers)
        headers.block = block
        return _new(Arrival, (self.subject, text(reply), headers, data, "", "", self.sid))


Run: TypeAlias = Answered | Pulled


class _Sizes(dict[bytes, int]):
    """Numbers by their digits, each read once: of many messages few have a size of their own."""

    def __missing__(self, digits: bytes) -> int:
        if not digits.isdigit():
            raise ValueError(digits)
        number = self[digits] = int(digits)
        return number


class _Pairs(dict[bytes, tuple[int, int]]):
    """Likewise for the two sizes of a message with headers."""

    def __missing__(self, digits: bytes) -> tuple[int, int]:
        block, _, whole = digits.partition(b" ")
        if not (block.isdigit() and whole.isdigit() and len(PLAIN_START) <= int(block) <= int(whole)):
            raise ValueError(digits)
        pair = self[digits] = (int(block), int(whole))
        return pair


def text(subject: bytes) -> str:
    """Subjects are UTF-8 by convention only."""
    return subject.decode("utf-8", "surrogateescape")


class AnswerReader:
    """Reads the runs of answers of one connection; knows from the last one how the next will most likely begin."""

    __slots__ = ("_between", "_common", "_sid", "_sizes", "_stem")

    def __init__(self) -> None:
        # Nothing begins so.
        self._common = b"MSG ?"
        self._between = self._stem = b""
        self._sid = 0
        self._sizes = _Sizes()

    def read(self, data: bytes) -> tuple[Answered, int] | None:
        """The run at the start of these bytes, and where it ends; None without one."""
        if len(self._sizes) > MOST_SIZES:
            self._sizes.clear()
        if data.startswith(self._common):
            found = self._read(data)
            if found is not None:
                return found
        return self._read(data) if self._learn(data) else None

    def _learn(self, data: bytes) -> bool:
        """Take over what the first message has in common with those that may follow."""
        line_end = data.find(_CRLF)
        words = data[:line_end].split()
        if len(words) != 4:
            return False
        _, subject, sid, size = words
        stem = subject[: subject.rfind(b".") + 1]
        common = b"MSG " + stem
        # Two blanks, where the server is old, or one.
        between = data[4 + len(subject) : line_end - len(size)]
        if not data.startswith(common) or between.split() != [sid] or not sid.isdigit():
            return False
        self._common, self._between, self._stem, self._sid = common, between, stem, int(sid)
        return True

    def _read(self, data: bytes) -> tuple[Answered, int] | None:
        common, between, sizes = self._common, self._between, self._sizes
        pieces = data[len(common) :].split(_CRLF + common)
        # What is behind the last line end is not whole.
        last = pieces.pop()
        if last.endswith(_CRLF):
            pieces.append(last[:-2])
        numbers, answers = list[bytes](), list[bytes]()
        try:
            for piece in pieces:
                line, ended, content = piece.partition(_CRLF)
                number, _, size = line.partition(between)
                if sizes[size] != len(content) or not number.isdigit() or not ended:
                    break
                numbers.append(number)
                answers.append(content)
        except ValueError:
            pass
        taken = len(numbers)
        if not taken:
            return None
        run = _new(Answered, (self._stem, self._sid, numbers, answers))
        return run, sum(map(len, pieces[:taken])) + taken * (len(common) + 2)


def pulled(data: bytes, position: int) -> tuple[Pulled, int] | None:
    """The run of pulled messages that begins there, and where it ends; None without one."""
    words = data[position : data.find(_CRLF, position)].split()
    if len(words) != 6 or not words[2].isdigit():
        return None
    _, subject, sid, first, *sizes = words
    # Each begins as the first one; what ends a line is looked for only where it is not as far away as in the last one.
    common = b"\r\nHMSG %b %b " % (subject, sid)
    after = len(common)
    ending = b" %b %b%b" % (*sizes, _BLOCK)
    length = len(first)
    pairs = _Pairs()
    replies, blocks, payloads = list[bytes](), list[bytes](), list[bytes]()
    startswith = data.startswith
    stop = position - 2
    try:
        middle, whole = pairs[b" ".join(sizes)]
        more = startswith(common[2:], position)
        while more and len(replies) < MOST_PULLED:
            begin = stop + after
            if startswith(ending, begin + length):
                reply = data[begin : begin + length]
            else:
                reply, _, digits = data[begin : data.index(_BLOCK, begin)].partition(b" ")
                middle, whole = pairs[digits]
                length, ending = len(reply), b" %b%b" % (digits, _BLOCK)
            start = begin + length + len(ending) - len(PLAIN_START)
            end = start + whole
            more = startswith(common, end)
            if not more and not startswith(_CRLF, end):
                break
            replies.append(reply)
            blocks.append(data[start : start + middle])
            payloads.append(data[start + middle : end])
            stop = end
    except ValueError:
        pass
    # Nothing that ends a word or a line is in a reply, or this is no run at all.
    joined = b"".join(replies)
    if not replies or joined.split() != [joined]:
        return None
    return _new(Pulled, (text(subject), int(sid), replies, blocks, payloads)), stop + 2

"""Runs of messages that have nearly everything in common, as the hot paths get them: PubAcks, and a pull's messages.

Their common parts are read once, and no value is made per message. A run is taken only from the start of the bytes,
and ends, without judging, at the first difference: the Decoder goes on from there, one by one. A caller that does not
want runs gets the same messages as `Arrival`s.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, TypeAlias

from headrace.core.fast import new_object, new_tuple
from headrace.core.nats.nats_wire.frames import Arrival
from headrace.core.nats.nats_wire.headers import NO_HEADERS, PLAIN_START, Headers

_CRLF = b"\r\n"
# Sizes of one connection: PubAcks have few, and those of other answers are not worth more memory.
MOST_SIZES = 1000
# So few that the messages are used while they are still in the processor's cache.
MOST_PULLED = 32
_BLOCK = _CRLF + PLAIN_START
_REMEMBERED = 256
# The size of any message that is read has fewer digits.
_LONGEST_SIZE = 18


class AnswerRun(NamedTuple):
    """Messages without headers and reply on one inbox, whose subjects differ by a number at their end.

    Attributes:
        stem: the beginning of their subjects.
        numbers: the rest of each subject, as its digits came.
        answers: the data of each message.
    """

    stem: bytes
    sid: int
    numbers: list[bytes]
    answers: list[bytes]

    def arrivals(self) -> list[Arrival]:
        stem = text(self.stem)
        pairs = zip(self.numbers, self.answers, strict=True)
        return [
            new_tuple(Arrival, (stem + number.decode(), "", NO_HEADERS, data, "", "", self.sid))
            for number, data in pairs
        ]


class PullRun(NamedTuple):
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
        headers = new_object(Headers)
        headers.block = block
        return new_tuple(Arrival, (self.subject, text(reply), headers, data, "", "", self.sid))


Run: TypeAlias = AnswerRun | PullRun


@lru_cache(_REMEMBERED)
def _pair(block: bytes, whole: bytes) -> tuple[int, int]:
    """The two sizes of a message with headers, by their digits, each pair read once; ValueError for other text."""
    if not (block.isdigit() and whole.isdigit() and len(PLAIN_START) <= int(block) <= int(whole)):
        raise ValueError(whole)
    return int(block), int(whole)


def text(subject: bytes) -> str:
    """Subjects are UTF-8 by convention only."""
    return subject.decode("utf-8", "surrogateescape")


class AnswerRunReader:
    """Reads the runs of answers of one connection; the last one tells how the next will most likely begin."""

    __slots__ = ("_between", "_common", "_ending", "_sid", "_size", "_sizes", "_stem")

    def __init__(self) -> None:
        # No message begins so, whatever its subject.
        self._common = _CRLF
        self._between = self._stem = b""
        self._sid = 0
        # The end of a line behind the number, and the size in it; most answers are as long as the last one.
        self._ending, self._size = _CRLF, -1
        # Sizes by their digits, each read once: many messages share few sizes. A plain dict: a class of
        # ours costs twice as much to ask.
        self._sizes: dict[bytes, int] = {}

    def find(self, data: bytes) -> tuple[AnswerRun, int] | None:
        """The run at the start of these bytes, and where it ends; None without one."""
        if data.startswith(self._common):
            found = self._match(data)
            if found is not None:
                return found
        return self._match(data) if self._learn(data) else None

    def _learn(self, data: bytes) -> bool:
        """Take over the parts of the first message that those after it may share."""
        line_end = data.find(_CRLF)
        words = data[:line_end].split()
        if len(words) != 4:
            return False
        _, subject, sid, size = words
        stem = subject[: subject.rfind(b".") + 1]
        common = b"MSG " + stem
        # One blank, or two from an old server.
        between = data[4 + len(subject) : line_end - len(size)]
        if not data.startswith(common) or between.split() != [sid] or not sid.isdigit():
            return False
        if between != self._between:
            # The remembered ending bears the other subscription's number.
            self._ending, self._size = _CRLF, -1
        self._common, self._between, self._stem, self._sid = common, between, stem, int(sid)
        return True

    def _match(self, data: bytes) -> tuple[AnswerRun, int] | None:
        common, ending, size = self._common, self._ending, self._size
        pieces = data[len(common) :].split(_CRLF + common)
        # The piece behind the last line end is not whole.
        last = pieces.pop()
        if last.endswith(_CRLF):
            pieces.append(last[:-2])
        numbers: list[bytes] = []
        answers: list[bytes] = []
        for piece in pieces:
            number, ended, content = piece.partition(ending)
            if not ended or len(content) != size:
                number, content = self._parted(piece)
                ending, size = self._ending, self._size
            if not number.isdigit():
                break
            numbers.append(number)
            answers.append(content)
        if not numbers:
            return None
        end = sum(map(len, pieces[: len(numbers)])) + (len(common) + len(_CRLF)) * len(numbers)
        return new_tuple(AnswerRun, (self._stem, self._sid, numbers, answers)), end

    def _parted(self, piece: bytes) -> tuple[bytes, bytes]:
        """The number and the data of an answer that is not as long as the last one; no number unless it is whole."""
        line, ended, content = piece.partition(_CRLF)
        number, _, digits = line.partition(self._between)
        size = len(content)
        if not ended or (self._sizes.get(digits) != size and not self._says(digits, size)):
            return b"", b""
        self._ending, self._size = self._between + digits + _CRLF, size
        return number, content

    def _says(self, digits: bytes, size: int) -> bool:
        """Are these the digits of this size? Then they are remembered."""
        if len(digits) > _LONGEST_SIZE or not digits.isdigit() or int(digits) != size:
            return False
        if len(self._sizes) >= MOST_SIZES:
            self._sizes.clear()
        self._sizes[digits] = size
        return True


def pull_run(data: bytes, position: int) -> tuple[PullRun, int] | None:
    """The run of pulled messages that begins there, and where it ends; None without one."""
    line_end = data.find(_CRLF, position)
    words = data[position:line_end].split()
    if len(words) != 6 or not words[2].isdigit():
        return None
    _, subject, sid, reply, block, whole = words
    try:
        middle, size = _pair(block, whole)
    except ValueError:
        return None
    start = line_end + 2
    if start + size + 2 < len(data):
        return _pulled_together(data, position, words)
    # A message alone, as most are in quiet hours: no others share anything with it.
    if start + size + 2 > len(data) or not data.startswith(PLAIN_START, start) or not data.endswith(_CRLF):
        return None
    middle += start
    columns = [reply], [data[start:middle]], [data[middle:-2]]
    return new_tuple(PullRun, (text(subject), int(sid), *columns)), len(data)


def _pulled_together(data: bytes, position: int, words: list[bytes]) -> tuple[PullRun, int] | None:
    """The same where more messages follow.

    Args:
        words: of the first line.
    """
    _, subject, sid, first, *sizes = words
    # Each begins as the first one; the end of a line is searched only where it is not as far away as in the last one.
    common = b"\r\nHMSG %b %b " % (subject, sid)
    after = len(common)
    ending = b" %b %b%b" % (*sizes, _BLOCK)
    length = len(first)
    replies: list[bytes] = []
    blocks: list[bytes] = []
    payloads: list[bytes] = []
    startswith = data.startswith
    stop = position - 2
    try:
        middle, whole = _pair(*sizes)
        more = startswith(common[2:], position)
        while more and len(replies) < MOST_PULLED:
            begin = stop + after
            if startswith(ending, begin + length):
                reply = data[begin : begin + length]
            else:
                reply, _, digits = data[begin : data.index(_BLOCK, begin)].partition(b" ")
                middle, whole = _pair(*digits.partition(b" ")[::2])
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
    # A reply with anything that ends a word or a line means that this is no run at all.
    joined = b"".join(replies)
    if not replies or joined.split() != [joined]:
        return None
    return new_tuple(PullRun, (text(subject), int(sid), replies, blocks, payloads)), stop + 2

"""Bytes from a server to frames, however the bytes are split.

Holds an incomplete frame back, and no more of it than the bounds in `frames` allow. Each byte is copied a constant
number of times, whatever the splits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.core.fast import new_object, new_tuple
from headrace.core.nats.nats_wire.bulk import Bulk, frame_end
from headrace.core.nats.nats_wire.frames import (
    MAX_INFO_BYTES,
    MAX_LINE_BYTES,
    MAX_MESSAGE_BYTES,
    Arrival,
    Frame,
    ProtocolError,
    ServerError,
    Signal,
    read_info,
)
from headrace.core.nats.nats_wire.headers import NO_HEADERS, PLAIN_START, Headers, status_of
from headrace.core.nats.nats_wire.runs import AnswerRun, AnswerRunReader, PullRun, Run, pull_run, text

_CRLF = b"\r\n"
# One message with its line.
MAX_FRAME_BYTES = MAX_MESSAGE_BYTES + MAX_LINE_BYTES
_SIGNALS = {signal.value.encode(): signal for signal in Signal}


class Decoder:
    """One connection's stream of bytes; of no use after a ProtocolError."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._answers = AnswerRunReader()
        # All bytes of the held frame; 0 while its line is incomplete.
        self._needed = 0

    @property
    def held(self) -> int:
        """Bytes that wait for the rest of their frame."""
        return len(self._held)

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that these bytes complete.

        Raises:
            ProtocolError: garbage, or something beyond our bounds.
        """
        return _one_by_one(self.feed_runs(data))

    def feed_runs(self, data: bytes) -> Iterator[Frame | Run]:
        """As `feed`, but each thing as it is found, and messages that have nearly everything in common as one run.

        Go through it to its end.

        Raises:
            ProtocolError: as `feed`, after the frames before the garbage.
        """
        if self._held:
            data = self._joined(data)
        return self._decode(data) if data else iter(())

    def feed_bulk(self, data: bytes, bulk: Bulk) -> list[Frame]:
        """As `feed`, but `bulk` takes its own messages, and only the other frames come back.

        Raises:
            ProtocolError: as `feed`.
        """
        whole = self._joined(data)
        frames: list[Frame] = []
        position = 0
        try:
            while position < len(whole):
                position = bulk.take(whole, position)
                if position >= len(whole):
                    break
                end = frame_end(whole, position)
                if end - position > MAX_FRAME_BYTES or 0 < end < position:
                    raise ValueError
                if not end or end > len(whole):
                    self._hold(whole[position:], end - position if end else 0)
                    break
                frames += _one_by_one(self._decode(whole[position:end]))
                position = end
        except (ValueError, IndexError):
            raise _garbage(whole, position) from None
        return frames

    def _joined(self, data: bytes) -> bytes:
        """The held bytes with these behind them; empty while the held frame is not complete."""
        if not self._held:
            return data
        if not self._completed_by(data):
            self._hold(data, self._needed)
            return b""
        whole = b"".join((self._held, data))
        self._held.clear()
        return whole

    def _completed_by(self, data: bytes) -> bool:
        """Do these bytes complete the held frame, or at least the line with its length?"""
        if self._needed:
            return len(self._held) + len(data) >= self._needed
        return _CRLF in data or (self._held.endswith(b"\r") and data.startswith(b"\n"))

    def _hold(self, rest: bytes, needed: int) -> None:
        self._held += rest
        self._needed = needed
        if not needed:
            _bound(self._held)

    def _decode(self, data: bytes) -> Iterator[Frame | Run]:
        position = 0
        try:
            if data.startswith(b"MSG ") and (answers := self._answers.find(data)) is not None:
                run, position = answers
                yield run
            while data.startswith(b"HMSG ", position) and (messages := pull_run(data, position)) is not None:
                messages_run, position = messages
                yield messages_run
            while position < len(data):
                line_end = data.find(_CRLF, position)
                if line_end < 0:
                    self._hold(data[position:], 0)
                    break
                # Split on any white space: 2.9 sends two blanks where the reply is empty.
                words = data[position:line_end].split()
                verb = words[0]
                if verb == b"HMSG":
                    with_reply, header_size = len(words) - 5, int(words[-2])
                elif verb == b"MSG":
                    with_reply, header_size = len(words) - 4, 0
                else:
                    yield _control(verb, data[position:line_end])
                    position = line_end + 2
                    continue
                total = int(words[-1])
                if not 0 <= header_size <= total <= MAX_MESSAGE_BYTES or with_reply not in (0, 1):
                    raise ValueError
                start = line_end + 2
                stop = start + total
                if stop + 2 > len(data):
                    self._hold(data[position:], stop + 2 - position)
                    break
                if data[stop : stop + 2] != _CRLF:
                    raise ValueError
                middle = start + header_size
                yield _message(words, with_reply, data[start:middle], data[middle:stop])
                position = stop + 2
        # A line with too few or too many words, or with a word that is no number, ends in one of these two.
        except (ValueError, IndexError):
            raise _garbage(data, position) from None


def _one_by_one(frames: Iterable[Frame | Run]) -> list[Frame]:
    found: list[Frame] = []
    for frame in frames:
        if isinstance(frame, AnswerRun | PullRun):
            found += frame.arrivals()
        else:
            found.append(frame)
    return found


def _garbage(data: bytes, position: int) -> ProtocolError:
    return ProtocolError(f"not the NATS protocol: {data[position : position + 16]!r}…")


def _control(verb: bytes, line: bytes) -> Frame:
    _bound(line)
    if verb == b"INFO":
        return read_info(line[len(verb) :])
    if verb == b"-ERR":
        return ServerError(line[len(verb) :].decode("utf-8", "replace").strip(" \t'"))
    signal = _SIGNALS.get(verb)
    if signal is None:
        raise ValueError
    return signal


def _bound(line: bytes | bytearray) -> None:
    limit = MAX_INFO_BYTES if line.startswith(b"INFO") else MAX_LINE_BYTES
    if len(line) > limit:
        raise ProtocolError(f"a line of more than {limit} bytes: {bytes(line[:16])!r}…")


def _message(words: list[bytes], with_reply: int, block: bytes, data: bytes) -> Arrival:
    subject, reply = text(words[1]), text(words[3]) if with_reply else ""
    if not block:
        return new_tuple(Arrival, (subject, reply, NO_HEADERS, data, "", "", int(words[2])))
    headers = new_object(Headers)
    headers.block = block
    if block.startswith(PLAIN_START):
        return new_tuple(Arrival, (subject, reply, headers, data, "", "", int(words[2])))
    return new_tuple(Arrival, (subject, reply, headers, data, *status_of(block), int(words[2])))

"""DNS messages as bytes (RFC 1035), as far as a cluster needs them: one question, answers of kinds A and CNAME."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

A, CNAME, ANY = 1, 5, 255
IN = 1
# Answers are true for as long as nothing changes, and nobody is told when it does.
_TTL_SECONDS = 2
_RESPONSE, _AUTHORITATIVE, _TRUNCATED, _RECURSION_DESIRED, _RECURSION_AVAILABLE = 0x8000, 0x0400, 0x0200, 0x0100, 0x0080
_OPCODE = 0x7800
_HEADER = struct.Struct(">HHHHHH")
_LARGEST_OVER_UDP = 512


class Code(IntEnum):
    """How a question was answered."""

    FINE = 0
    MALFORMED = 1
    NO_SUCH_NAME = 3
    NOT_IMPLEMENTED = 4


class Malformed(Exception):
    """Bytes that are no question."""


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked.

    Attributes:
        name: in lower case, without the dot at the end.
        raw: the question's bytes, which the answer repeats as they are.
    """

    number: int
    flags: int
    name: str
    kind: int
    raw: bytes


@dataclass(frozen=True, slots=True)
class Record:
    """An answer: an address, or another name."""

    owner: str
    kind: int
    value: str


def question(data: bytes) -> Question:
    """Raises:
    Malformed: these bytes ask nothing, or several things.
    """
    try:
        number, flags, questions, *_ = _HEADER.unpack_from(data)
        labels, at = [], _HEADER.size
        while length := data[at]:
            # Longer ones are pointers, which a question has no use for.
            if length > 63:
                raise Malformed("a label of more than 63 bytes")
            labels.append(data[at + 1 : at + 1 + length].decode("ascii"))
            at += 1 + length
        kind, _ = struct.unpack_from(">HH", data, at + 1)
    except (struct.error, IndexError, UnicodeDecodeError) as problem:
        raise Malformed(str(problem)) from problem
    if flags & _RESPONSE or questions != 1:
        raise Malformed(f"flags {flags:#06x}, {questions} questions")
    return Question(number, flags, ".".join(labels).lower(), kind, data[_HEADER.size : at + 5])


def is_query(asked: Question) -> bool:
    """Or is it one of the other things that the protocol knows?"""
    return asked.flags & _OPCODE == 0


def answer(asked: Question, code: Code, records: Sequence[Record] = (), *, over_udp: bool = False) -> bytes:
    """The whole message; over UDP without its records when they are too many, so that the asker comes back by TCP."""
    flags = _RESPONSE | _AUTHORITATIVE | _RECURSION_AVAILABLE | (asked.flags & _RECURSION_DESIRED) | code
    body = b"".join(map(_record, records))
    if over_udp and _HEADER.size + len(asked.raw) + len(body) > _LARGEST_OVER_UDP:
        return _HEADER.pack(asked.number, flags | _TRUNCATED, 1, 0, 0, 0) + asked.raw
    return _HEADER.pack(asked.number, flags, 1, len(records), 0, 0) + asked.raw + body


def _record(record: Record) -> bytes:
    value = ipaddress.IPv4Address(record.value).packed if record.kind == A else _name(record.value)
    return _name(record.owner) + struct.pack(">HHIH", record.kind, IN, _TTL_SECONDS, len(value)) + value


def _name(name: str) -> bytes:
    return b"".join(bytes([len(label)]) + label.encode("ascii") for label in name.split(".")) + b"\0"

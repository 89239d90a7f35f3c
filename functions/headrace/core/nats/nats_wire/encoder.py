"""The requests of a client, as bytes.

Refuses requests that would make the server close the connection: a message that is too large, or a subject that ends
early.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from headrace.core.errors import Refused
from headrace.core.nats.nats_wire.headers import header_block
from headrace.core.quoting import quoted

# Both clients give this version.
VERSION = "0.1.0"
PING = b"PING\r\n"
PONG = b"PONG\r\n"

# The server's default; a longer line costs the connection.
MAX_CONTROL_LINE = 4096

# No connection asks that often; the bound keeps room for the digits, and for those of the sizes.
LARGEST_SERIAL = 10**24 - 1

CRLF = b"\r\n"


def connect(fields: Mapping[str, Any]) -> bytes:
    """CONNECT, the answer to INFO: the client's abilities and its identity.

    Args:
        fields: name and identity (`user` and `pass`, `auth_token`, or `nkey` or `jwt` with `sig`).
    """
    able = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True, "protocol": 1, "echo": True}
    return b"CONNECT %b\r\n" % json.dumps({**able, "lang": "python", "version": VERSION, **fields}).encode()


def publish(
    subject: str, data: bytes, reply: str, headers: Mapping[str, str] | bytes | None, max_payload: int
) -> bytes:
    """PUB, or HPUB with headers.

    Args:
        reply: where answers go; empty for none.
        headers: or the block that `header_block` made, for a caller that sends the same again.
        max_payload: of the server, in bytes.

    Raises:
        Refused: 413 more than the server takes in one message, or than it takes as a subject; 400 an illegal subject
            or header.
    """
    block = (headers if isinstance(headers, bytes) else header_block(headers)) if headers else b""
    size = len(block) + len(data)
    if size > max_payload:
        raise Refused(f"a message of {size} bytes exceeds the server's max_payload of {max_payload}", status=413)
    target = f"{subject} {reply}" if reply else subject
    line = f"HPUB {target} {len(block)} {size}" if block else f"PUB {target} {size}"
    # The whole line is checked: the blanks that we have put there, and nothing else that ends a word or a line.
    blanks = (3 if block else 2) + (1 if reply else 0)
    if line.count(" ") != blanks or not line.isprintable() or not subject:
        raise Refused(
            f"subject {quoted(subject)} or reply {quoted(reply)} is not legal: no blanks, no control characters",
            status=400,
        )
    head = line.encode()
    if len(head) > MAX_CONTROL_LINE:
        raise Refused(f"subject {subject[:80]!r}… has {len(subject)} characters: too long for a server", status=413)
    return b"".join((head, CRLF, block, data, CRLF))


def question_line(subject: str, inbox: str) -> bytes:
    """The line of all HPUBs to a subject with answers to one inbox. Fill it by `%`: the rest of the reply subject,
    bytes of the block, bytes of block and data. After it come the block, which is not empty, the data and CRLF.

    Only the size is left to check then.

    Args:
        inbox: the beginning of the reply subjects, last dot included.

    Raises:
        Refused: as for `publish`.
    """
    line, _, _ = publish(subject, b"", f"{inbox}{LARGEST_SERIAL}", b"", LARGEST_SERIAL).partition(b" 0\r\n")
    return b"H%b%%b %%d %%d\r\n" % line.removesuffix(b"%d" % LARGEST_SERIAL).replace(b"%", b"%%")


def answer(reply: str | bytes, data: bytes) -> bytes:
    """PUB to a reply subject exactly as the server has just sent it, with a few bytes of data: an ack.

    Nothing is left to check: a subject that came over the wire has no blank and no line end in it.
    """
    to = reply if isinstance(reply, bytes) else reply.encode("utf-8", "surrogateescape")
    return b"PUB %b %d\r\n%b\r\n" % (to, len(data), data)


def subscribe(subject: str, sid: int) -> bytes:
    """SUB.

    Raises:
        Refused: 400, an illegal subject.
    """
    if not subject or not subject.isprintable() or " " in subject:
        raise Refused(f"subject {quoted(subject)} is not legal: no blanks, no control characters", status=400)
    return f"SUB {subject} {sid}\r\n".encode()


def unsubscribe(sid: int) -> bytes:
    """UNSUB, at once."""
    return b"UNSUB %d\r\n" % sid

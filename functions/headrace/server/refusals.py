"""What is said of a request that the server refuses by itself. The bytes are made once: a flood costs no more.

Pure. `headrace.server.connection` writes them, and the application logs the words.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.http import problem
from headrace.server.front import encode

WHY: Mapping[int, tuple[str, str]] = {
    400: (
        "Malformed request",
        "others could read these bytes in another way: send a request line with single blanks and an escaped path, one "
        "Host, which an absolute URL has, too, and one length of the body",
    ),
    405: ("Method not allowed", "this server is no proxy: CONNECT leads nowhere"),
    408: ("Too slow", "the request was not complete in 20 s after its first byte: send it faster"),
    414: ("URL too long", "the URL has more than 8 KiB: shorten it"),
    431: (
        "Head too large",
        "the head, or what is around the body, has more than 64 KiB or 256 headers: send fewer",
    ),
    501: ("Unknown transfer coding", "send the body chunked, or with its length"),
    503: ("Not available", "too much is on its way in, or the process is ending: send it again"),
    505: ("Unknown version", "send HTTP of version 1.1 or 1.0"),
}
_AGAIN = ((b"retry-after", b"1"),)

ANSWERS = {
    status: encode(problem(status, title, detail, headers=_AGAIN if status == 503 else ()), closing=True)
    for status, (title, detail) in WHY.items()
}
"""The answers, by status; each closes the connection."""

"""The answer of a server that we don't trust with our memory, read up to a bound."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import aiohttp

from headrace.core.errors import Unavailable

# No compression: a small answer must not unpack to a large one.
AS_SENT = {"Accept-Encoding": "identity"}


async def body_of(answer: aiohttp.ClientResponse, most: int) -> bytes:
    """The body of an answer; its session has no `auto_decompress`.

    Args:
        most: bytes.

    Raises:
        Unavailable: the body is longer; the rest is not read.
    """
    # Not a list of pieces: a small piece takes thirty times the memory of its bytes.
    body = bytearray()
    async for piece in answer.content.iter_any():
        body += piece
        if len(body) > most:
            answer.close()
            raise Unavailable(f"{answer.url.host} answers more than {most} bytes")
    return bytes(body)


async def lines_of(answer: aiohttp.ClientResponse, longest: int, most: int) -> AsyncGenerator[bytes]:
    """The lines of an answer as they come, without their ends and without empty ones; the last one needs no end.

    Args:
        longest: bytes of one line; most: bytes of all.

    Raises:
        Unavailable: a line or the whole is longer; the rest is not read.
    """
    rest, length = b"", 0
    async for piece in answer.content.iter_any():
        length += len(piece)
        *whole, rest = (rest + piece).split(b"\n")
        for line in filter(None, whole):
            yield line
        if len(rest) > longest or length > most:
            answer.close()
            raise Unavailable(f"{answer.url.host} answers more than {longest if len(rest) > longest else most} bytes")
    if rest:
        yield rest

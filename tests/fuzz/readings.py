"""`python -m tests.fuzz.readings`: three readers of the same bytes, which must not read two things in them.

Where one reader takes bytes for a request's end or address, and the next one does not, a stranger's request gets
through as a part of somebody else's. So the short way, our server over httptools, and h11 read each case:

- the short way and the server's other way give the same answers and store the same messages;
- each request that our server takes, h11 takes, too, with the same method, target, headers and body, and in the same
  order. h11 may take more: our server is the stricter one.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from typing import NamedTuple
from urllib.parse import unquote

import h11
import uvloop

from headrace.core.event.delivery_claim import Claims
from headrace.server import heads
from tests.fuzz.http import EVENTS, REQUESTS
from tests.support.http.in_memory_http import Seen, exchange
from tests.support.http.in_memory_receive import both_ways

_CLAIMS = Claims(b"the key of claims")
_MORE = (
    b"POST http://h/shop/orders HTTP/1.1\r\nHost: h\r\nce-specversion: 1.0\r\nce-id: 3\r\nce-source: /s\r\n"
    b"ce-type: t\r\nContent-Length: 1\r\n\r\nx",
    b"POST /shop/orders HTTP/1.1\r\nhost: h\r\ncontent-type: application/cloudevents+json\r\n"
    b'transfer-encoding: chunked\r\n\r\n37\r\n{"specversion":"1.0","id":"1","source":"/s","type":"t"}\r\n0\r\n\r\n',
    b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
)
_OF_UPGRADE = (b"upgrade", b"http2-settings", b"connection")
_SEEDS = (*EVENTS * 8, *REQUESTS, *_MORE)
_BYTES = b"\0\t\n\r \"#$%&'()*+,-./0159:;<=>?@ACHT[\\]^_`aeht{|}~\x7f\x80\xc3\xff"
_WORDS = (
    *(b"RTSP/1.0", b"ICE/1.0", b"HTTP/0.9", b"HTTP/1.0", b"HTTP/1.2", b"HTTP/2.0", b"http/1.1", b"  ", b"\t", b"\r\n"),
    *(b"gopher://h/", b"http://h/", b"http://u@h/", b"https://H", b"//", b"/%2f", b"#f", b"\\", b"?q=1", b"*"),
    *(b"content-length: 5\r\n", b"content-length: 05\r\n", b"Content-Length: +5\r\n", b"content-length: 5, 5\r\n"),
    *(b"transfer-encoding: chunked\r\n", b"transfer-encoding: chunked, chunked\r\n", b"Transfer-Encoding: gzip\r\n"),
    *(
        b"transfer-encoding: gzip, chunked\r\n",
        b"transfer-encoding:\x0bchunked\r\n",
        b"transfer-encoding : chunked\r\n",
    ),
    *(b"host: h\r\n", b"Host: u@h\r\n", b"Host: h h\r\n", b"Host:\r\n", b"connection: close\r\n", b" folded\r\n"),
    *(b"connection: upgrade\r\nupgrade: h2c\r\n", b"expect: 100-continue\r\n", b"x: \0\r\n", b"\n", b"\r", b": v\r\n"),
    *(
        b"0\r\n\r\n",
        b"1;a=b\r\n",
        b"1 \r\n",
        b"0x1\r\n",
        b"ce-id: 1\r\n",
        b"k-original-host: h\r\n",
        b"traceparent: x\r\n",
    ),
)


class Disagreement(AssertionError):
    """Two readers read two things."""


class Tally(NamedTuple):
    """Attributes:
    taken: cases in which our server took a request.
    short: cases in which the short way took one.
    """

    cases: int = 0
    taken: int = 0
    short: int = 0


def case(chance: random.Random) -> tuple[bytes, ...]:
    """One to three requests with some faults, in one piece or in several."""
    sent = bytearray(b"".join(chance.choices(_SEEDS, k=chance.choice((1, 1, 1, 1, 1, 2, 3)))))
    for _ in range(chance.choice((0, 0, 1, 1, 1, 2, 2, 4))):
        _mutate(sent, chance)
    whole = bytes(sent)
    if len(whole) < 2 or chance.random() < 0.8:
        return (whole,)
    at = sorted(chance.sample(range(1, len(whole)), min(len(whole) - 1, chance.choice((1, 1, 2, 4)))))
    return tuple(whole[begin:end] for begin, end in zip([0, *at], [*at, len(whole)], strict=True))


def _mutate(sent: bytearray, chance: random.Random) -> None:
    if not sent:
        return
    # Half of the faults are where the most is decided.
    place = chance.randrange(min(len(sent), 60) if chance.random() < 0.5 else len(sent))
    match chance.randrange(8):
        case 0:
            sent[place] = chance.choice(_BYTES)
        case 1:
            sent.insert(place, chance.choice(_BYTES))
        case 2:
            del sent[place]
        case 3:
            sent[place:place] = chance.choice(_WORDS)
        case 4:
            lines = bytes(sent).split(b"\r\n")
            lines.insert(chance.randrange(len(lines)), chance.choice(lines))
            sent[:] = b"\r\n".join(lines)
        case 5:
            lines = bytes(sent).split(b"\r\n")
            lines.insert(min(1, len(lines)), chance.choice(_WORDS).rstrip(b"\r\n"))
            sent[:] = b"\r\n".join(lines)
        case 6:
            end = place + chance.randrange(12)
            sent[place:end] = bytes(sent[place:end]).swapcase()
        case _:
            del sent[place : place + chance.randrange(1, 8)]


async def hold(pieces: tuple[bytes, ...]) -> tuple[bool, bool]:
    """Whether our server took a request of these, and whether the short way did.

    Raises:
        AssertionError: two readers disagree.
    """
    short, _ = await both_ways(pieces, _CLAIMS)
    ours = (await exchange(pieces)).requests
    theirs = by_h11(b"".join(pieces))
    for number, (mine, its) in enumerate(zip(ours, [*theirs, *[None] * len(ours)], strict=False)):
        if its is None or _comparable(mine) != its:
            raise Disagreement(f"request {number} is {_comparable(mine)}, and for h11 {its}")
    return bool(ours), short.by_short_way > 0


def by_h11(sent: bytes) -> list[Seen]:
    """The whole requests that h11 reads in these bytes."""
    seen: list[Seen] = []
    while True:
        # We ignore one empty line in front of a request, as RFC 9112 (section 2.2) says, and h11 none.
        reader = h11.Connection(h11.SERVER)
        reader.receive_data(sent.removeprefix(b"\r\n"))
        try:
            head, body = reader.next_event(), b""
            if not isinstance(head, h11.Request):
                return seen
            while isinstance(part := reader.next_event(), h11.Data):
                body += part.data
        except h11.RemoteProtocolError:
            return seen
        if not isinstance(part, h11.EndOfMessage):
            return seen
        seen.append(_of_h11(head, body))
        if reader.their_state is h11.MUST_CLOSE:
            return seen
        sent = reader.trailing_data[0]


def _of_h11(head: h11.Request, body: bytes) -> Seen:
    path = heads.origin_form(head.target).partition(b"?")[0].decode("latin-1")
    return _comparable(Seen(head.method.decode(), unquote(path), tuple(head.headers), body))


def _comparable(one: Seen) -> Seen:
    # Our server ignores the offer of an upgrade, and takes these headers out; h11 leaves that to its caller, and writes
    # a coding's name in lower case.
    kept = [
        (name, value.strip(b" \t").lower() if name == b"transfer-encoding" else value.strip(b" \t"))
        for name, value in one.headers
        if name not in _OF_UPGRADE
    ]
    return one._replace(headers=tuple(sorted(kept)))


def run(cases: int, seed: int) -> Tally:
    """Hold so many cases under a seed; raises at the first disagreement, with the pieces in its notes."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_run(cases, seed))


async def _run(cases: int, seed: int) -> Tally:
    chance, tally = random.Random(seed), Tally()
    for number in range(cases):
        pieces = case(chance)
        try:
            taken, short = await hold(pieces)
        except AssertionError as error:
            error.add_note(f"case {number} under seed {seed}: {pieces!r}")
            raise
        tally = Tally(number + 1, tally.taken + taken, tally.short + short)
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.readings", description=__doc__)
    parser.add_argument("--cases", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    asked = parser.parse_args()
    began = time.monotonic()
    tally = run(asked.cases, asked.seed)
    took = time.monotonic() - began
    told = f"a request was taken in {tally.taken}, by the short way in {tally.short}"
    print(f"seed {asked.seed}: {tally.cases} cases in {took:.0f} s, {told}: 0 disagreements")
    return 0


if __name__ == "__main__":
    sys.exit(main())

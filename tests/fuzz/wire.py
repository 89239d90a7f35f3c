"""Targets: the NATS protocol as a server or an impostor speaks it, and the header blocks that we write."""

from __future__ import annotations

from hypothesis import strategies as st

from headrace.core.errors import Refused
from headrace.core.nats.nats_wire import (
    MAX_INFO_BYTES,
    MAX_LINE_BYTES,
    Decoder,
    Frame,
    Headers,
    ProtocolError,
    can_carry,
    header_block,
    pairs,
)
from tests.fuzz import mutations
from tests.fuzz.target import SECONDS_PER_BYTE, Target

# Of CPU per byte of what is sent again and again.
_ENDLESS_SECONDS = mutations.ENDLESS * SECONDS_PER_BYTE
_Pieces = tuple[bytes, ...]
_Pairs = tuple[tuple[str, str], ...]

SAID = (
    b'INFO {"server_id":"x","version":"2.11.0","max_payload":1048576,"connect_urls":["a:1"],"nonce":"n"}\r\n',
    b"MSG inbox.1 1 26\r\n" + b'{"stream":"S","seq":12345}\r\nMSG inbox.2 1 2\r\nok\r\n',
    b"HMSG s.x 2 $JS.ACK.S.C.1.2.3.4.5 34 36\r\nNATS/1.0\r\nce-id: 1\r\nCe-Id: 2\r\n\r\nhi\r\n",
    b"HMSG inbox.3 3  28 28\r\nNATS/1.0 408 Timed Out\r\n\r\n  \r\n",
    b"PING\r\nPONG\r\n+OK\r\n-ERR 'Authorization Violation'\r\n",
    # Runs, with something else in their midst.
    b"".join(b'MSG i.%d 1  25\r\n{"stream":"S","seq":%04d}\r\n' % (9 + at, at) for at in range(4))
    + b'MSG i.13 1 2\r\n\r\n\r\nMSG j.14 1 25\r\n{"stream":"S","seq":0005}\r\n',
    b"".join(b"HMSG s.x 2 $JS.ACK.S.C.1.%d.3.4.5 12 14\r\nNATS/1.0\r\n\r\nhi\r\n" % at for at in range(9, 12))
    + b"HMSG s.x 2 i.1 17 17\r\nNATS/1.0 408 \r\n\r\n\r\nHMSG s.x 2 i.2 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
)
_WORDS = (
    b"MSG ",
    b"HMSG ",
    b"INFO {",
    b"-ERR ",
    b" 0\r\n\r\n",
    b" -1",
    b" 67108865",
    b" 1_0",
    b"9" * 30,
    b" " * 3,
    b"\x0b",
)


def _fed(pieces: _Pieces) -> tuple[list[Frame], str]:
    """The frames, and the words of the error that ended them."""
    decoder, frames = Decoder(), list[Frame]()
    for piece in pieces:
        try:
            frames += decoder.feed(piece)
        except ProtocolError as error:
            return frames, str(error)
        assert decoder.held <= sum(map(len, pieces))
    return frames, ""


def _hold_frames(pieces: _Pieces, result: tuple[list[Frame], str]) -> None:
    """The same frames, and an error if there was one, however the bytes are cut."""
    text = b"".join(pieces)
    cuts = [(text,)]
    if len(text) <= 2048:
        cuts.append(tuple(text[at : at + 1] for at in range(len(text))))
    long = any(len(line) > MAX_LINE_BYTES for line in text.split(b"\r\n"))
    for cut in cuts:
        frames, wrong = _fed(cut)
        if long and bool(wrong) != bool(result[1]):
            continue  # how much of a line without end is looked at depends on the pieces
        assert bool(wrong) == bool(result[1]), f"one cut is refused with {wrong or result[1]!r}, the other is not"
        if not wrong:
            assert frames == result[0], "other frames from other pieces"
    assert len(result[1]) < 500, "the error quotes too much"


def _read_endless(given: tuple[bytes, bytes]) -> int:
    """Bytes that are held back at most, unless a message was announced that is as long."""
    start, more = given
    decoder, most = Decoder(), 0
    for piece in (start, *[more] * mutations.ENDLESS):
        frames = decoder.feed(piece)
        most = 0 if frames else max(most, decoder.held)
    return most


def _hold_endless(given: tuple[bytes, bytes], most: int) -> None:
    announced = any(word in b"".join(given) * 2 for word in (b"MSG ", b"MSG\t", b"MSG\x0b"))
    assert announced or most <= MAX_INFO_BYTES + sum(map(len, given)), f"{most} bytes of a line are held"


def _hold_block(headers: _Pairs, block: bytes) -> None:
    given = dict(headers)
    assert list(pairs(block)) == [(name, value.strip(" \t")) for name, value in given.items()]
    assert block.count(b"\r") == block.count(b"\n") == len(given) + 2
    assert b"\0" not in block, "NUL is written"
    first: dict[str, str] = {}
    for name, value in given.items():
        first.setdefault(name.lower(), value.strip(" \t"))
    assert dict(Headers(block)) == first
    assert all(can_carry(name, value) for name, value in given.items())


def _read_block(headers: _Pairs) -> bytes:
    given = dict(headers)
    try:
        return header_block(given)
    except Refused:
        assert not all(can_carry(name, value) for name, value in given.items()), "what can be carried is refused"
        raise


_GOOD = (("Nats-Msg-Id", "1"), ("ce-id", "order 1"), ("content-type", "text/plain"))
_name = st.sampled_from(["Nats-Msg-Id", "ce-id", "CE-ID", "x", "", "a b", "a:b", "é", "a\r\nb", "a\0", "x" * 3000])
_value = st.sampled_from(
    ["", "v", " v ", "a\r\nb: c", "a\nb", "a\rb", "a\0b", "é", "\udc80", "\udc0a", "\ud800", "\x85"]
)
_texts = mutations.mutated_text([value for _, value in _GOOD])

TARGETS = (
    Target("decoder", mutations.pieces(mutations.mutated(SAID, _WORDS)), (SAID,), _fed, _hold_frames, (), memory=200),
    Target(
        "decoder_endless",
        mutations.endless(mutations.mutated(SAID, _WORDS), _WORDS),
        ((SAID[4], b"PING\r\n"),),
        _read_endless,
        _hold_endless,
        (ProtocolError,),
        memory=2000,
        seconds=_ENDLESS_SECONDS,
    ),
    Target(
        "nats_headers",
        st.lists(st.tuples(_name | _texts, _value | _texts) | st.sampled_from(_GOOD), min_size=1, max_size=8).map(
            tuple
        ),
        (_GOOD,),
        _read_block,
        _hold_block,
        (Refused,),
    ),
)

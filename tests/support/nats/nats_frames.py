"""Frames of the NATS protocol for property tests: any of them, as a server says them, in pieces."""

from __future__ import annotations

import itertools

from hypothesis import strategies as st

from headrace.core.nats.nats_wire import Arrival, Decoder, Frame, Info, ServerError, Signal, header_block

# Blanks and control characters end a subject on the wire; everything else may be in one.
subjects = st.text(st.characters(exclude_categories=("C", "Z"), exclude_characters=" "), min_size=1, max_size=20)
names = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters=":"), min_size=1, max_size=12)
values = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0"), max_size=20).map(
    lambda value: value.strip(" \t")
)
headers = st.dictionaries(names.map(str.lower), values, max_size=4)
contents = st.one_of(
    st.binary(max_size=40), st.sampled_from([b"", b"\r\n", b"MSG a 1 1\r\nx\r\n", b"\r", b"a\r\n\r\nb"])
)
statuses = st.sampled_from([("", ""), ("503", ""), ("408", "Request Timeout")])
messages = st.builds(
    lambda subject, reply, headers, data, status, sid: Arrival(
        subject, reply, headers, data, status[0], status[1], sid
    ),
    subjects,
    st.one_of(st.just(""), subjects),
    headers,
    contents,
    statuses,
    st.integers(0, 2**63),
)
signals = st.sampled_from(list(Signal))
errors = st.sampled_from([ServerError("Stale Connection"), ServerError('Permissions Violation for Publish to "a b"')])
frames = st.lists(st.one_of(messages, messages, signals, errors), max_size=12)
cuts = st.lists(st.integers(0, 2000), max_size=30)


def said(frame: Frame) -> bytes:
    """A frame as a server sends it."""
    match frame:
        case Signal():
            return frame.value.encode() + b"\r\n"
        case ServerError(words):
            return f"-ERR '{words}'\r\n".encode()
        case Info():
            raise AssertionError("written out where it is needed")
    block = header_block(frame.headers) if frame.headers or frame.status else b""
    if frame.status:
        block = block.replace(b"NATS/1.0", f"NATS/1.0 {frame.status} {frame.description}".encode(), 1)
    reply = f"{frame.reply} " if frame.reply else ""
    sizes = f"{len(block)} {len(block) + len(frame.data)}" if block else f"{len(frame.data)}"
    verb = "HMSG" if block else "MSG"
    return f"{verb} {frame.subject} {frame.sid} {reply}{sizes}\r\n".encode() + block + frame.data + b"\r\n"


def decoded(chunks: list[bytes]) -> list[Frame]:
    decoder = Decoder()
    return [frame for chunk in chunks for frame in decoder.feed(chunk)]


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[start:stop] for start, stop in itertools.pairwise(edges)]

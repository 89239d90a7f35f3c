"""Messages in bulk: whatever the splits, the columns and frames hold what the Decoder says one by one."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.nats.nats_wire import Arrival, Bulk, Decoder, Frame, ProtocolError, Signal

SID = 7
payloads = st.one_of(st.binary(max_size=30), st.sampled_from([b"", b"\r\n", b"MSG a 7 r 1\r\nx\r\n"]))
blocks = st.sampled_from([b"", b"NATS/1.0\r\na: b\r\n\r\n", b"NATS/1.0 408 Request Timeout\r\n\r\n"])
replies = st.sampled_from(["", "$JS.ACK.EV.c.1.1.1.1.0"])


def line(subject: str, sid: int, reply: str, block: bytes, payload: bytes) -> bytes:
    words = [subject, str(sid), *([reply] if reply else []), *([str(len(block))] if block else [])]
    head = " ".join(["HMSG" if block else "MSG", *words, str(len(block) + len(payload))])
    return head.encode() + b"\r\n" + block + payload + b"\r\n"


messages = st.builds(line, st.sampled_from(["a", "ä.b"]), st.sampled_from([SID, 8, 70]), replies, blocks, payloads)
frames = st.lists(
    st.one_of(messages, messages, st.sampled_from([b"PING\r\n", b"+OK\r\n", b"-ERR 'x'\r\n"])), max_size=12
)


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:stop] for start, stop in itertools.pairwise(edges) if start < stop]


def is_ours(frame: Frame, *, answers: bool) -> bool:
    if not isinstance(frame, Arrival) or frame.sid != SID:
        return False
    plain_block = bool(frame.headers) and not frame.status
    return (not frame.reply and plain_block) if answers else bool(frame.reply)


@given(frames, st.lists(st.integers(0, 2000), max_size=20), st.booleans())
def test_the_columns_and_the_other_frames_are_what_the_decoder_says(
    sent: list[bytes], cuts: list[int], answers: bool
) -> None:
    data = b"".join(sent)
    one_by_one = Decoder().feed(data)
    decoder, bulk = Decoder(), Bulk(SID, answers=answers)
    others = [frame for chunk in split(data, cuts) for frame in decoder.feed_bulk(chunk, bulk)]
    ours = [frame for frame in one_by_one if isinstance(frame, Arrival) and is_ours(frame, answers=answers)]
    assert others == [frame for frame in one_by_one if not is_ours(frame, answers=answers)]
    assert bulk.payloads == [frame.data for frame in ours]
    assert [subject.decode() for subject in bulk.subjects] == [frame.subject for frame in ours]
    assert [reply.decode() for reply in bulk.replies] == [frame.reply for frame in ours]
    assert bulk.blocks == [getattr(frame.headers, "block", b"") for frame in ours]
    assert bulk.size == sum(map(len, bulk.payloads)) + sum(map(len, bulk.blocks))


def test_a_decoder_changes_between_bulk_and_frames_in_the_middle_of_a_message() -> None:
    decoder, bulk = Decoder(), Bulk(SID)
    data = line("a", SID, "r", b"", b"payload")
    assert decoder.feed_bulk(data[:9], bulk) == []
    assert decoder.feed(data[9:] + b"PING\r\n") == [Arrival("a", "r", data=b"payload", sid=SID), Signal.PING]


@pytest.mark.parametrize(
    "garbage", [b"HMSG a 7 r 9 1\r\nx\r\n", b"MSG a 7 r x\r\n\r\n", b"MSG a 7 r 1\r\nxyz\r\n", b"?\r\n"]
)
def test_garbage_ends_the_connection(garbage: bytes) -> None:
    with pytest.raises(ProtocolError):
        Decoder().feed_bulk(line("a", SID, "r", b"", b"x") + garbage, Bulk(SID))

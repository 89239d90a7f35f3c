"""The NATS protocol as bytes and values: any split, real servers' words, garbage, and what may not be sent."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.core.nats.nats_wire import (
    MAX_INFO_BYTES,
    MAX_LINE_BYTES,
    MAX_MESSAGE_BYTES,
    Arrival,
    Decoder,
    Info,
    ProtocolError,
    ServerError,
    Signal,
    header_block,
    pairs,
    publish,
)
from tests.support.nats.nats_frames import contents, cuts, decoded, frames, headers, said, split, subjects

ROOM = 1024 * 1024
RECORDED = sorted(Path(__file__).with_name("recorded").glob("*.bin"))


@given(frames, cuts)
@example([Arrival("a", data=b"\r"), Arrival("a", data=b"\r\nMSG b 1 0\r\n")], [13, 14, 15])
def test_any_split_of_any_stream_of_frames_gives_the_same_frames(sent, cuts):
    assert decoded(split(b"".join(map(said, sent)), cuts)) == sent


@given(frames)
def test_so_does_one_byte_after_the_other(sent):
    stream = b"".join(map(said, sent))
    assert decoded([stream[at : at + 1] for at in range(len(stream))]) == sent


@given(subjects, st.one_of(st.just(""), subjects), headers, contents)
@example("?", "", {}, b"")
def test_what_one_client_publishes_another_reads_unchanged(subject, reply, headers, data):
    frame = publish(subject, data, reply, headers, ROOM)
    verb, _, rest = frame.partition(b" ")
    first, _, rest = rest.partition(b" ")
    on_the_way = b"HMSG" if verb == b"HPUB" else b"MSG"
    [arrival] = Decoder().feed(b"%b %b 7 %b" % (on_the_way, first, rest))
    assert arrival == Arrival(subject, reply, headers, data, sid=7)


@pytest.mark.parametrize("recording", RECORDED, ids=lambda path: path.stem)
def test_a_session_with_a_real_server_is_understood(recording):
    session = decoded([recording.read_bytes()])
    infos = [frame for frame in session if isinstance(frame, Info)]
    assert f"nats-{infos[0].version}" == recording.stem
    assert (infos[0].max_payload, infos[0].lame_duck, infos[0].tls_required) == (1048576, False, False)
    arrivals = [frame for frame in session if isinstance(frame, Arrival)]
    sent = {"ce-id": "1", "nats-msg-id": "one", "ce-city": "Zürich", "empty": ""}
    assert arrivals[:7] == [
        Arrival("talk.plain", data=b"hello", sid=1),
        Arrival("talk.empty", sid=1),
        Arrival("talk.reply", "inbox.nobody", data=b"answer me", sid=1),
        Arrival("talk.lines", data=b"a line\r\nMSG talk.fake 1 4\r\nfake\r\n", sid=1),
        Arrival("talk.headers", headers=sent, data=b"with headers", sid=1),
        Arrival("talk.headers.reply", "inbox.nobody", sent, sid=1),
        Arrival("talk.größe", data="größer".encode(), sid=1),
    ]
    statuses = [(frame.subject, frame.status, frame.description) for frame in arrivals if frame.status]
    assert statuses == [
        ("inbox.1", "503", ""),
        ("inbox.7", "408", "Request Timeout"),
        ("inbox.8", "404", "No Messages"),
    ]
    stored = [frame for frame in arrivals if frame.subject.startswith("recorded.")]
    assert [(frame.headers, len(frame.data)) for frame in stored] == [(sent, 5), ({}, 70_000)]
    assert all(frame.reply.startswith("$JS.ACK.RECORDED.reader.1.") and frame.sid == 22 for frame in stored)
    assert session[-2:] == [Signal.PONG, ServerError("Unknown Protocol Operation")]
    assert Signal.PING in session


@pytest.mark.parametrize("recording", RECORDED, ids=lambda path: path.stem)
@pytest.mark.parametrize("length", [1, 7, 1000, 65536])
def test_a_session_with_a_real_server_may_come_in_pieces_of_any_length(recording, length):
    data = recording.read_bytes()
    pieces = [data[at : at + length] for at in range(0, len(data), length)]
    assert decoded(pieces) == decoded([data])


def test_there_are_recordings_of_the_oldest_and_the_newest_server_that_people_run():
    assert [path.stem for path in RECORDED] == ["nats-2.15.1", "nats-2.9.10"]
    # Two blanks where the reply is empty: only the old one does that.
    assert [b"22  " in path.read_bytes() for path in RECORDED] == [False, True]


def fed(data: bytes, cuts: list[int]) -> int:
    """The most that a decoder held back while it read this; garbage may end in nothing but a ProtocolError."""
    decoder, most = Decoder(), 0
    try:
        for chunk in split(data, cuts):
            decoder.feed(chunk)
            most = max(most, decoder.held)
    except ProtocolError:
        pass
    return most


@given(st.binary(max_size=300), cuts)
@example(b"HMSG a 1 5\r\n", [])
@example(b"MSG\r\n", [])
@example(b"MSG a b c d e f\r\n", [])
@example(b"\r\n", [])
@example(b"HMSG a 1 9 5\r\nhello\r\n", [])
def test_random_bytes_raise_nothing_but_our_own_error(garbage, cuts):
    assert fed(garbage, cuts) <= len(garbage)


@given(st.sampled_from(RECORDED), st.integers(0, 2500), st.binary(min_size=1, max_size=4), cuts)
def test_a_damaged_session_raises_nothing_but_our_own_error(recording, at, damage, cuts):
    session = recording.read_bytes()[:3000]
    damaged = session[:at] + damage + session[at + len(damage) :]
    assert fed(damaged, cuts) <= len(damaged)


@pytest.mark.parametrize(
    ("said", "limit"),
    [
        pytest.param(b"MSG " + b"a" * 10_000, MAX_LINE_BYTES, id="a line that does not end"),
        pytest.param(b"a" * 10_000, MAX_LINE_BYTES, id="garbage that does not end"),
        pytest.param(b"INFO {" + b" " * 200_000, MAX_INFO_BYTES, id="an INFO that does not end"),
        pytest.param(b"MSG a 1 %d\r\n" % (MAX_MESSAGE_BYTES + 1), MAX_LINE_BYTES, id="a message larger than any"),
        pytest.param(b"MSG a 1 " + b"9" * 5000 + b"\r\n", MAX_LINE_BYTES, id="a size that no computer has"),
        pytest.param(b"MSG a 1 -5\r\n", MAX_LINE_BYTES, id="a negative size"),
        pytest.param(b"HMSG a 1 -1 5\r\nhello\r\n", MAX_LINE_BYTES, id="a negative header"),
        pytest.param(b"MSG a 1 5\r\nhello, world\r\n", MAX_LINE_BYTES, id="a size that is not the data's"),
        pytest.param(b"MSG a 1 5\r\nhello..PING\r\n", MAX_LINE_BYTES, id="data that goes on behind its size"),
        pytest.param(b"HMSG a 1 0 5\r\nhello..PING\r\n", MAX_LINE_BYTES, id="the same with a header"),
        pytest.param(b"INFO " + b"[" * 100_000 + b"\r\n", MAX_INFO_BYTES, id="an INFO nested without end"),
        pytest.param(b'INFO {"max_payload":"much"}\r\n', MAX_LINE_BYTES, id="an INFO with a wrong type"),
        pytest.param(b'INFO ["max_payload"]\r\n', MAX_LINE_BYTES, id="an INFO that is no object"),
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", MAX_LINE_BYTES, id="another protocol"),
    ],
)
def test_a_hostile_server_is_refused_before_it_costs_memory(said, limit):
    decoder = Decoder()
    held = []

    def listen() -> None:
        for at in range(0, len(said), 100):
            decoder.feed(said[at : at + 100])
            held.append(decoder.held)

    with pytest.raises(ProtocolError):
        listen()
    assert max(held, default=0) <= limit


def test_reading_a_large_message_in_small_pieces_takes_time_in_proportion():
    data = b"\r\n" * (8 * 1024 * 1024)
    stream = b"MSG a 1 %d\r\n%b\r\n" % (len(data), data)
    began = time.perf_counter()
    [arrival] = decoded([stream[at : at + 1024] for at in range(0, len(stream), 1024)])
    # Copying all at each piece would move 128 GiB.
    assert time.perf_counter() - began < 5
    assert arrival == Arrival("a", data=data, sid=1)


def test_an_info_says_what_we_need_to_know():
    said = (
        b'INFO {"server_id":"N1","version":"2.15.1","max_payload":2048,"nonce":"abc","tls_required":true,'
        b'"tls_available":true,"connect_urls":["10.0.0.1:4222",7,"[::1]:4222"],"ldm":true,"new":{"a":1}} \r\n'
    )
    assert Decoder().feed(said) == [
        Info("N1", "2.15.1", 2048, "abc", True, True, ("10.0.0.1:4222", "[::1]:4222"), lame_duck=True)
    ]


@pytest.mark.parametrize(
    ("said", "limit"), [(-1, MAX_MESSAGE_BYTES), (0, MAX_MESSAGE_BYTES), (10**12, MAX_MESSAGE_BYTES)]
)
def test_a_payload_without_limit_is_limited_all_the_same(said, limit):
    [info] = Decoder().feed(b'INFO {"max_payload":%d}\r\n' % said)
    assert isinstance(info, Info)
    assert info.max_payload == limit


def test_the_names_of_a_block_can_be_had_as_they_were_sent():
    assert list(pairs(header_block({"Nats-Msg-Id": "1", "ce-id": "x: y"}))) == [("Nats-Msg-Id", "1"), ("ce-id", "x: y")]

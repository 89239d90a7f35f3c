"""Runs of messages: one pass reads the same as a reading frame by frame, however they are split or damaged."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.core.nats.nats_wire import AnswerRun, Arrival, Decoder, Frame, ProtocolError, PullRun
from tests.support.nats.nats_frames import cuts, decoded, said, signals, split

pulled = st.builds(
    Arrival,
    st.sampled_from(["shop.orders", "shop.orders", "shop.orders", "shop.orderz", "größe"]),
    st.sampled_from(["$JS.ACK.S.C.1.1.1.1.0", "$JS.ACK.S.C.1.2.2.1.0", "$JS.ACK.S.C.1.10.10.1.0", "", "antwort.ü"]),
    st.sampled_from([{"ce-id": "1"}, {"ce-id": "12"}, {}]),
    st.sampled_from([b"", b"data", b"HMSG shop.orders 1 r 12 12\r\nNATS/1.0\r\n\r\n\r\n", b"\r\n"]),
    st.sampled_from(["", "", "", "408"]),
    description=st.just(""),
    sid=st.sampled_from([1, 1, 1, 2]),
)


@given(st.lists(pulled, max_size=6), cuts)
def test_what_pulls_bring_is_the_same_however_it_is_split(sent, cuts):
    assert decoded(split(b"".join(map(said, sent)), cuts)) == sent


EMPTY = b"NATS/1.0\r\n\r\n\r\n"


def outcome(stream: bytes) -> list[Frame] | str:
    try:
        return decoded([stream])
    except ProtocolError:
        return "refused"


@given(
    st.lists(pulled, max_size=6),
    st.integers(0, 600),
    st.sampled_from([b"", b"\r", b"\n", b"\r\r", b" ", b"x", b"-1", b"9"]),
)
def test_what_pulls_bring_is_read_in_one_pass_as_it_is_frame_by_frame(sent, at, damage):
    stream = b"".join(map(said, sent))
    damaged = stream[:at] + damage + stream[at + len(damage) :]
    # Behind another frame no short cut is taken.
    one_by_one = outcome(b"PING\r\n" + damaged)
    assert outcome(damaged) == (one_by_one if isinstance(one_by_one, str) else one_by_one[1:])


answers = st.builds(
    lambda subject, reply, data, sid: Arrival(subject, reply, data=data, sid=sid),
    st.sampled_from(["inbox.1", "inbox.2", "inbox.10", "inbox.7", "inbox.x", "box.1", "3", "größe.4"]),
    st.sampled_from(["", "", "", "r", "1"]),
    st.sampled_from([b'{"stream":"S","seq":1}', b'{"stream":"S","seq":20}', b"", b"\r\nMSG inbox.1 1 0\r\n", b"\r\n"]),
    st.sampled_from([1, 1, 1, 2]),
)
anything = st.lists(st.one_of(pulled, answers, answers, signals), max_size=8)


def answer(subject: str, sid: int) -> Arrival:
    return Arrival(subject, "", data=b'{"stream":"S","seq":1}', sid=sid)


# What was remembered of subscription 2 told where an answer to it ends, when 1 had just been learnt.
@example(
    [answer("inbox.1", 2), answer("inbox.1", 1), answer("box.1", 1), answer("inbox.1", 1), answer("inbox.1", 2)],
    [42, 166],
)
@given(st.lists(answers, max_size=8), cuts)
def test_answers_are_the_same_however_they_are_split(sent, cuts):
    assert decoded(split(b"".join(map(said, sent)), cuts)) == sent


@given(anything, st.integers(0, 300), st.sampled_from([b"", b"\r", b"\n", b"\t", b" ", b"x", b"-1", b"9", b"  "]))
def test_answers_are_read_in_one_pass_as_they_are_frame_by_frame(sent, at, damage):
    stream = b"".join(map(said, sent))
    damaged = stream[:at] + damage + stream[at + len(damage) :]
    one_by_one = outcome(b"PING\r\n" + damaged)
    assert outcome(damaged) == (one_by_one if isinstance(one_by_one, str) else one_by_one[1:])


def test_two_blanks_where_a_reply_could_be_are_one_run_too():
    stream = b"".join(b"MSG inbox.%d 1  2\r\nok\r\n" % number for number in range(98, 102))
    [run] = Decoder().feed_runs(stream)
    assert run == AnswerRun(b"inbox.", 1, [b"98", b"99", b"100", b"101"], [b"ok"] * 4)


def test_a_run_may_be_of_another_inbox_or_subscription_than_the_last_one():
    decoder = Decoder()
    for stem, sid in ((b"inbox.", 1), (b"inbox.", 12), (b"box.", 12), (b"inbox.", 1)):
        stream = b"".join(b"MSG %b%d %d 2\r\nok\r\n" % (stem, number, sid) for number in range(9, 11))
        assert list(decoder.feed_runs(stream)) == [AnswerRun(stem, sid, [b"9", b"10"], [b"ok"] * 2)]


def test_answers_are_one_run_whatever_their_sizes():
    decoder = Decoder()
    for answers in ([b"ok", b"ok"], [b"", b""], [b"", b"ok", b"yes"], [b"yes"]):
        stream = b"".join(b"MSG inbox.7 1 %d\r\n%b\r\n" % (len(data), data) for data in answers)
        assert list(decoder.feed_runs(stream)) == [AnswerRun(b"inbox.", 1, [b"7"] * len(answers), answers)]


def test_what_a_pull_brings_is_one_run_whatever_its_sizes():
    sent = [
        Arrival("a", f"$JS.ACK.{number}", {"ce-id": str(number)}, b"x" * (number % 3), sid=7)
        for number in range(95, 105)
    ]
    [run] = Decoder().feed_runs(b"".join(map(said, sent)))
    assert isinstance(run, PullRun)
    assert (run.subject, run.sid, run.arrivals()) == ("a", 7, sent)


@pytest.mark.parametrize(
    "stream",
    [
        pytest.param(b"HMSG a 1 r 10 8\r\nNATS/1.0\r\nPING\r\n", id="more headers than message"),
        pytest.param(b"HMSG a 1 r 12 12\r\n%bHMSG b 1 r 12 12\r\n%b" % (EMPTY, EMPTY), id="another subject"),
        pytest.param(b"HMSG a 1 r 12 12\r\n%bHMSG a 2 r 12 12\r\n%b" % (EMPTY, EMPTY), id="another subscription"),
        pytest.param(b"HMSG a 1 r 12 12\rxNATS/1.0\r\n\r\n\r\n", id="half a line end"),
        pytest.param(b"HMSG a 1 r 12 13\r\nNATS/1.0\r\n\r\n\r\n", id="longer than it is"),
        pytest.param(b"HMSG a x r 12 12\r\nNATS/1.0\r\n\r\n\r\n", id="no subscription"),
    ],
)
def test_what_is_odd_in_one_pass_is_as_odd_frame_by_frame(stream):
    one_by_one = outcome(b"PING\r\n" + stream)
    assert outcome(stream) == (one_by_one if isinstance(one_by_one, str) else one_by_one[1:])

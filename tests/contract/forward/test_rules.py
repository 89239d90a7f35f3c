"""Which answers of a subscriber are success, which are tried again, and when: Knative's data plane, row by row.

A real `forward` process, a real nats-server, and a subscriber that answers as it is told.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence
from email.utils import formatdate
from itertools import pairwise
from typing import Any

import pytest

from tests.support.functions.functions import Function
from tests.support.http.subscriber import Answer, Cut, HangUp, Hold, Received, Say, Subscriber
from tests.support.nats.nats_server import free_port
from tests.support.nats.streams import Nats
from tests.support.waiting import until

pytest_plugins = ["tests.support.functions.served"]

# A retry that no test waits for.
PATIENT = {"retry": 1, "backoffPolicy": "linear", "backoffDelay": "PT1H"}
LATE = 5.0
"""How much later than due, in seconds, an attempt may come on a busy machine."""


def waits(received: Sequence[Received]) -> list[float]:
    return [later.at - earlier.at for earlier, later in pairwise(received)]


# ── what an answer means ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("status", [200, 201, 202, 204, 206, 299])
async def test_any_2xx_is_success(nats: Nats, forward: Function, subscriber: Subscriber, status: int) -> None:
    place, sink = subscriber.place(Say(status)), subscriber.place()
    lane = await nats.serve(forward, subscriber=place.uri, dead_letter=sink.uri, policy={"retry": 3})
    await lane.store("1")
    answer = await lane.take_one()
    assert (answer["delivered"], answer["retried"], answer["ack_pending"]) == (1, 0, 0)
    assert len(place.received) == 1
    assert sink.received == []


NOT_RETRIED = [
    pytest.param(Say(300), id="300"),
    pytest.param(Say(301, {"location": "/elsewhere"}), id="301 moved"),
    pytest.param(Say(302, {"location": "/elsewhere"}), id="302 found"),
    pytest.param(Say(304), id="304 not modified"),
    pytest.param(Say(307, {"location": "/elsewhere"}), id="307 redirect"),
    pytest.param(Say(400), id="400 bad request"),
    pytest.param(Say(401), id="401 unauthorized"),
    pytest.param(Say(403), id="403 forbidden"),
    pytest.param(Say(405), id="405 method not allowed"),
    pytest.param(Say(410), id="410 gone"),
    pytest.param(Say(413), id="413 too large"),
    pytest.param(Say(422), id="422 unprocessable"),
    pytest.param(Say(425), id="425 too early"),
    pytest.param(Say(499), id="499"),
]


@pytest.mark.parametrize("says", NOT_RETRIED)
async def test_a_refusal_is_not_tried_again_but_goes_to_the_dead_letter_sink_at_once(
    nats: Nats, forward: Function, subscriber: Subscriber, says: Say
) -> None:
    place, sink = subscriber.place(says), subscriber.place()
    lane = await nats.serve(forward, subscriber=place.uri, dead_letter=sink.uri, policy={"retry": 3})
    await lane.store("1")
    answer = await lane.take_one()
    assert (answer["dead_lettered"], answer["retried"], answer["ack_pending"]) == (1, 0, 0)
    assert len(place.received) == 1
    assert [request.event["knativeerrorcode"] for request in sink.received] == [str(says.status)]


@pytest.mark.parametrize("says", [row for row in NOT_RETRIED if row.values[0] in (Say(304), Say(400), Say(410))])
async def test_a_refusal_without_a_dead_letter_sink_is_parked_at_once(
    nats: Nats, forward: Function, subscriber: Subscriber, says: Say
) -> None:
    lane = await nats.serve(forward, subscriber=subscriber.place(says).uri, policy={"retry": 3})
    await lane.store("1")
    answer = await lane.take_one()
    assert (answer["parked"], answer["retried"], answer["ack_pending"]) == (1, 0, 0)
    [parked] = await lane.aside()
    assert parked.headers["Headrace-Status"] == str(says.status)


async def test_redirects_are_never_followed(nats: Nats, forward: Function, subscriber: Subscriber) -> None:
    elsewhere = subscriber.place()
    statuses = iter((301, 302, 303, 307, 308))
    place = subscriber.place().decides(lambda _: Say(next(statuses), {"location": elsewhere.uri}))
    lane = await nats.serve(forward, subscriber=place.uri)
    await lane.store("1", "2", "3", "4", "5")
    assert (await lane.lease())["parked"] == 5
    assert elsewhere.received == []


@pytest.mark.parametrize(
    "says",
    [
        pytest.param(Say(404), id="404 not found"),
        pytest.param(Say(408), id="408 request timeout"),
        pytest.param(Say(409), id="409 conflict"),
        pytest.param(Say(429), id="429 too many requests"),
        pytest.param(Say(500), id="500 internal error"),
        pytest.param(Say(501), id="501 not implemented"),
        pytest.param(Say(502), id="502 bad gateway"),
        pytest.param(Say(503), id="503 unavailable"),
        pytest.param(Say(504), id="504 gateway timeout"),
        pytest.param(Say(599), id="599"),
        pytest.param(HangUp(), id="closed without an answer"),
        pytest.param(Cut(), id="closed in the middle of the answer"),
        pytest.param(Cut(reset=True), id="reset in the middle of the answer"),
    ],
)
async def test_what_may_pass_is_tried_again(
    nats: Nats, forward: Function, subscriber: Subscriber, says: Answer
) -> None:
    sink = subscriber.place()
    lane = await nats.serve(forward, subscriber=subscriber.place(says).uri, dead_letter=sink.uri, policy=PATIENT)
    await lane.store("1")
    await _is_put_off_for_an_hour(await lane.take_one())
    assert sink.received == []


async def test_a_refused_connection_is_tried_again(nats: Nats, forward: Function) -> None:
    lane = await nats.serve(forward, subscriber=f"http://127.0.0.1:{free_port()}/", policy=PATIENT)
    await lane.store("1")
    await _is_put_off_for_an_hour(await lane.take_one())


async def test_a_host_that_does_not_exist_is_tried_again(nats: Nats, forward: Function) -> None:
    lane = await nats.serve(forward, subscriber="http://nobody.invalid/", policy=PATIENT)
    await lane.store("1")
    await _is_put_off_for_an_hour(await lane.take_one())


async def test_silence_is_tried_again_after_exactly_the_timeout(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Hold())
    lane = await nats.serve(forward, subscriber=place.uri, policy={**PATIENT, "timeout": "PT0.6S"})
    await lane.store("1")
    await _is_put_off_for_an_hour(await lane.take_one())
    [request] = place.received
    # The lease may be told of its end before the subscriber is.
    await until("the subscriber has seen that its client is gone", lambda: request.gone_at is not None)
    assert request.gone_at is not None
    assert 0.55 <= request.gone_at - request.at <= 0.6 + LATE


async def test_an_answer_that_trickles_in_is_cut_off_at_the_timeout_as_well(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Say(200, {"content-type": "text/plain"}, b"late", delay=4))
    lane = await nats.serve(forward, subscriber=place.uri, policy={**PATIENT, "timeout": "PT0.3S"})
    await lane.store("1")
    began = time.monotonic()
    await _is_put_off_for_an_hour(await lane.take_one())
    assert time.monotonic() - began < 4


async def _is_put_off_for_an_hour(answer: dict[str, Any]) -> None:
    assert (answer["retried"], answer["ack_pending"]) == (1, 1)
    assert 3590 <= answer["next_due_seconds"] <= 3600


# ── when it is tried again ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        pytest.param({"backoffPolicy": "linear", "backoffDelay": "PT0.2S"}, [0.2, 0.4, 0.6], id="linear"),
        pytest.param({"backoffPolicy": "exponential", "backoffDelay": "PT0.15S"}, [0.15, 0.3, 0.6], id="exponential"),
        pytest.param({"backoffPolicy": "linear", "backoffDelay": "PT0S"}, [0.0, 0.0, 0.0], id="none"),
    ],
)
async def test_retries_keep_to_the_back_off(
    nats: Nats, forward: Function, subscriber: Subscriber, backoff: dict[str, str], expected: list[float]
) -> None:
    place = subscriber.place(Say(503))
    lane = await nats.serve(forward, subscriber=place.uri, policy={"retry": 3, **backoff})
    await lane.store("1")
    async with lane.leased():
        await place.wait(4)
    for waited, due in zip(waits(place.received), expected, strict=True):
        assert due - 0.01 <= waited <= due + LATE


async def test_without_a_policy_there_is_one_attempt(nats: Nats, forward: Function, subscriber: Subscriber) -> None:
    place = subscriber.place(Say(503))
    lane = await nats.serve(forward, subscriber=place.uri)
    await lane.store("1")
    answer = await lane.take_one()
    assert (answer["parked"], answer["retried"]) == (1, 0)
    assert len(place.received) == 1


@pytest.mark.parametrize(
    ("says", "policy", "due"),
    [
        pytest.param(Say(503, {"retry-after": "20"}), {}, 20, id="seconds on 503"),
        pytest.param(Say(429, {"retry-after": "20"}), {}, 20, id="seconds on 429"),
        pytest.param(Say(503, {"retry-after": "3600"}), {"retryAfterMax": "PT40S"}, 40, id="up to retryAfterMax"),
        pytest.param(Say(503, {"retry-after": "3600"}), {}, 300, id="up to 5 minutes without one"),
        pytest.param(Say(503, {"retry-after": "3600"}), {"retryAfterMax": "PT0S"}, 10, id="ignored when that is zero"),
        pytest.param(Say(503, {"retry-after": "5"}), {}, 10, id="never less than the back-off"),
        pytest.param(Say(503, {"retry-after": "soon"}), {}, 10, id="nonsense counts for nothing"),
        pytest.param(Say(500, {"retry-after": "20"}), {}, 10, id="ignored on 500"),
        pytest.param(Say(408, {"retry-after": "20"}), {}, 10, id="ignored on 408"),
    ],
)
async def test_retry_after_is_honoured(
    nats: Nats, forward: Function, subscriber: Subscriber, says: Say, policy: dict[str, str], due: float
) -> None:
    backoff = {"retry": 1, "backoffPolicy": "linear", "backoffDelay": "PT10S"}
    lane = await nats.serve(forward, subscriber=subscriber.place(says).uri, policy={**backoff, **policy})
    await lane.store("1")
    answer = await lane.take_one()
    assert due - 3 <= answer["next_due_seconds"] <= due


async def test_retry_after_as_a_date_is_honoured(nats: Nats, forward: Function, subscriber: Subscriber) -> None:
    place = subscriber.place(Say(429, {"retry-after": formatdate(time.time() + 120, usegmt=True)}))
    lane = await nats.serve(forward, subscriber=place.uri, policy={"retry": 1})
    await lane.store("1")
    assert 110 <= (await lane.take_one())["next_due_seconds"] <= 120


async def test_an_attempt_comes_when_retry_after_is_over(nats: Nats, forward: Function, subscriber: Subscriber) -> None:
    place = subscriber.place(Say(503, {"retry-after": "1"}), Say(202))
    lane = await nats.serve(forward, subscriber=place.uri, policy={"retry": 1, "backoffDelay": "PT0.1S"})
    await lane.store("1")
    async with lane.leased():
        [waited] = waits(await place.wait(2))
    assert 0.99 <= waited <= 1 + LATE


# ── how often ───────────────────────────────────────────────────────────────────────────────────────────────────────

QUICK = {"retry": 2, "backoffPolicy": "linear", "backoffDelay": "PT0.05S"}
EVENT_REPLY = Say(
    200,
    {"ce-specversion": "1.0", "ce-id": "r", "ce-source": "/billing", "ce-type": "paid", "content-type": "text/plain"},
    b"paid",
)


async def test_subscriber_reply_and_sink_have_a_budget_of_their_own(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Say(500), Say(404), EVENT_REPLY)
    reply = subscriber.place(Say(503))
    sink = subscriber.place(Say(502), Say(500), Say(202))
    lane = await nats.serve(forward, subscriber=place.uri, reply=reply.uri, dead_letter=sink.uri, policy=QUICK)
    await lane.store("1")
    answer = await lane.lease(linger=0.6)
    assert [len(one.received) for one in (place, reply, sink)] == [3, 3, 3]
    assert (answer["dead_lettered"], answer["retried"], answer["ack_pending"]) == (1, 6, 0)
    # What stays is the count of what the sink has got.
    assert [one.subject.rpartition(f"{lane.consumer}.")[2] for one in await lane.aside("stage")] == ["sunk.total"]


async def test_a_sink_that_fails_for_good_leaves_the_event_parked_with_what_went_wrong_first(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place, sink = subscriber.place(Say(503, body=b"busy")), subscriber.place(Say(500, body=b"sink is down"))
    lane = await nats.serve(forward, subscriber=place.uri, dead_letter=sink.uri, policy=QUICK)
    await lane.store("1")
    answer = await lane.lease(linger=0.6)
    assert [len(one.received) for one in (place, sink)] == [3, 3]
    assert (answer["parked"], answer["ack_pending"]) == (1, 0)
    busy = base64.b64encode(b"busy").decode()
    assert {request.event["knativeerrordata"] for request in sink.received} == {busy}
    [parked] = await lane.aside()
    assert parked.headers["Headrace-Status"] == "503"
    assert parked.headers["Headrace-Reason"] == "dead letter sink gave status 500 on attempt 3"


async def test_a_budget_outlives_the_lease(nats: Nats, forward: Function, subscriber: Subscriber) -> None:
    place = subscriber.place(Say(503))
    lane = await nats.serve(
        forward, subscriber=place.uri, policy={"retry": 2, "backoffPolicy": "linear", "backoffDelay": "PT0.2S"}
    )
    await lane.store("1")
    answers = [await lane.lease(linger=linger) for linger in (0.1, 0.3, 0.6)]
    assert [answer["retried"] for answer in answers] == [1, 1, 0]
    assert answers[-1]["parked"] == 1
    assert len(place.received) == 3

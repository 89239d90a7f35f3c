"""`forward` wired to the world: one request is one lease."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any

from headrace.core import names
from headrace.core.delivery import admission, gaps, lease, pull_trouble, stage_record, sunk
from headrace.core.delivery.ahead import most_ahead
from headrace.core.delivery.bearer import Shown
from headrace.core.delivery.byte_pool import BytePool
from headrace.core.delivery.lease import Lease, Outcome, Tally
from headrace.core.delivery.order import Unsettled
from headrace.core.delivery.order_spec import DeliveryOrder
from headrace.core.delivery.pull_trouble import PullTrouble
from headrace.core.delivery.stage_record import StageRecord
from headrace.core.delivery.subscriber import Subscriber
from headrace.core.delivery.window import ENVELOPE
from headrace.core.errors import Refused, Unavailable
from headrace.core.event.delivery_claim import Claims
from headrace.core.event.nats_codec import Encoded, NatsMessage, encoded
from headrace.core.http import Request, Response, json_response, problem
from headrace.core.installation.function_settings import ForwardSettings
from headrace.core.metrics import Snapshot
from headrace.core.nats.jetstream import Message
from headrace.forward import Effects, ShortEffects, Survey, forward
from headrace.host import lease_news, standing
from headrace.host.forward_counts import ForwardCounts
from headrace.host.outcome_log import OutcomeLog
from headrace.host.posting import Posting
from headrace.host.standing import Standing
from headrace.io import delivery_key, tracing, web
from headrace.io.http import HttpClient
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.jetstream.data_path import JetStream
from headrace.io.jetstream.keepalive import KeepAlive
from headrace.io.jetstream.scan import scan
from headrace.io.nats.client import Client
from headrace.io.process import clock, environment, log
from headrace.io.process.security import Security

LONGEST_BODY = 64 * 1024
# For one request to JetStream in the middle of a delivery; less than the ack wait.
ASK_SECONDS = 5.0
# The server counts an ack a moment after it has come, and may answer our request in between. The last events of a lease
# would then seem unsettled, and would call for another lease that finds nothing. So we look again, up to so many times;
# events in the hands of another lease cost these looks, too.
MORE_LOOKS = 2
LOOK_PAUSE = 0.02

_log = log.get("forward")


class Leasing:
    """The handler of `forward`."""

    @classmethod
    def configured(
        cls, http: Callable[[], HttpClient] = HttpClient
    ) -> Callable[[Client, JetStreamApi, Security], Leasing]:
        """Read the settings now, so that a wrong one ends the process before it serves."""
        settings = environment.fill(ForwardSettings)
        standing.wanted_leases(settings)
        made = settings, web.Token.configured(), delivery_key.claims()
        posting = partial(Posting, settings.max_answer_bytes, tracing.configured("forward"), http)
        return partial(cls, *made, posting)

    @classmethod
    def stands(cls) -> bool:
        """Does it open leases by itself?"""
        return bool(environment.fill(ForwardSettings).consumers)

    def __init__(
        self,
        settings: ForwardSettings,
        token: web.Token,
        claims: Claims,
        posting: Callable[[ForwardCounts], Posting],
        client: Client,
        api: JetStreamApi,
        security: Security,
    ) -> None:
        self._settings = settings
        self._token = token
        self._claims = claims
        self._client = client
        self._api = api
        self._jetstream = JetStream(client, api)
        self._keep_alive = KeepAlive(self._jetstream.settle)
        self._pool = BytePool(settings.max_process_bytes)
        self._open: set[asyncio.Event] = set()
        self._draining = False
        self._counts = ForwardCounts()
        self._posting = posting(self._counts)
        self._posting.trust(security.now().trust)
        security.on_change.append(lambda found: self._posting.trust(found.trust))
        self._log = OutcomeLog()
        self._standing = Standing(standing.wanted_leases(settings), self)

    async def handle(self, request: Request, receive: web.Receive, send: web.Send) -> None:
        early = web.Early(send)
        await web.answer(self._lease(request, receive, early), send, early=early)

    def drain(self) -> None:
        self._draining = True
        self._standing.drain()
        for stop in self._open:
            stop.set()

    async def close(self) -> None:
        await self._standing.close()
        await self._posting.close()

    def snapshot(self) -> Snapshot:
        return self._counts.snapshot(in_flight=self._keep_alive.held, in_flight_bytes=self._pool.used)

    async def _lease(self, request: Request, receive: web.Receive, early: web.Early) -> Response:
        if request.method != "POST":
            return problem(405, "Method not allowed", "open a lease with POST", headers=((b"allow", b"POST"),))
        refusal = await self._token.refusal(request)
        if refusal is not None:
            return refusal
        body = await web.read_body(receive, request, LONGEST_BODY)
        asked = lease.parse_request(
            body, max_in_flight=self._settings.max_in_flight, max_bytes=self._settings.max_in_flight_bytes
        )
        if self._draining:
            raise Unavailable("this process is ending: open the lease again")
        found = await self.look_up(asked)
        if isinstance(found, Response):
            return found
        info, subscriber = found
        stop, tally = asyncio.Event(), Tally()
        with lease_news.telling(asked, tally, early, stop, lambda: self._draining):
            return await self._serve(asked, subscriber, info, receive, stop, tally)

    async def look_up(self, asked: Lease) -> tuple[Mapping[str, Any], Subscriber] | Response:
        """The consumer's CONSUMER.INFO and its subscriber, or the reason that it can't be served."""
        info = await self._info(asked)
        if info is None:
            return problem(404, "No such consumer", f"stream {asked.stream!r} has no consumer {asked.consumer!r}")
        subscriber = admission.admit(asked.consumer, info["config"], asked.tokens)
        return subscriber if isinstance(subscriber, Response) else (info, subscriber)

    async def _serve(
        self,
        asked: Lease,
        subscriber: Subscriber,
        info: Mapping[str, Any],
        receive: web.Receive,
        stop: asyncio.Event,
        tally: Tally,
    ) -> Response:
        watching = asyncio.create_task(web.disconnected(receive))
        watching.add_done_callback(lambda _: stop.set())
        try:
            await self.pull(asked, subscriber, info, stop, tally)
        finally:
            watching.cancel()
        last = await self._last_look(asked, len(tally.due))
        pending = int(last.get("num_pending", 0)) if last else 0
        ack_pending = int(last.get("num_ack_pending", 0)) if last else 0
        answer = lease.answer(tally, pending=pending, ack_pending=ack_pending, now=clock.wall())
        return json_response(200, answer.to_json())

    async def pull(
        self, asked: Lease, subscriber: Subscriber, info: Mapping[str, Any], stop: asyncio.Event, tally: Tally
    ) -> None:
        """Hold one lease, until it ends by itself, `stop` is set, or this process is told to end.

        Args:
            info: CONSUMER.INFO before it begins.
            tally: gets the lease's counts.

        Raises:
            Unavailable: NATS is away, or the latest pulls broke off one after the other.
            Refused: the server refused the pulls; both errors have its words.
        """
        self._open.add(stop)
        if self._draining:
            # The drain began while its consumer was looked up.
            stop.set()
        try:
            largest = self._jetstream.max_payload + ENVELOPE
            # The subscriber's limits are shared by all leases that may serve it at once (ADR 012).
            leases, unsettled = subscriber.most_leases, int(info["config"].get("max_ack_pending", 0))
            asked = replace(
                asked,
                bits_per_second=subscriber.rate_limit_bps / leases,
                max_ahead=most_ahead(asked.max_in_flight, unsettled, leases),
            )
            shown = Shown(asked.tokens, clock.monotonic, stop.set)
            tally.outdated = shown.outdated
            effects = self._effects(asked, subscriber, tally, shown)
            with self._counts.lease(subscriber, tally):
                await forward(asked, subscriber, largest, effects, stop, gaps.begin(info), self._pool)
        finally:
            self._open.discard(stop)
            self._log.tell_rest(subscriber)
            self._tell_of_skew(subscriber, tally.skew)
        await self._note_discarded(asked, subscriber, tally.counts[Outcome.DISCARDED])
        await self._note_sunk(asked, subscriber, tally)
        if not (tally.refused or tally.broken):
            return
        await self._note_pull_trouble(asked, subscriber, tally.refused or tally.broken)
        place = f"of consumer {asked.consumer} of stream {asked.stream}"
        if tally.refused:
            raise Refused(f"NATS refuses the pulls {place}: {tally.refused}", status=409)
        raise Unavailable(f"the pulls {place} break off one after the other: {tally.broken}")

    async def _last_look(self, asked: Lease, put_off: int) -> dict[str, Any] | None:
        """The consumer's counters, with the acks of this lease if the server counts them soon.

        Args:
            put_off: events that this lease leaves un-acked on purpose.
        """
        info = await self._info(asked)
        for _ in range(MORE_LOOKS):
            if info is None or int(info.get("num_ack_pending", 0)) <= put_off:
                break
            await asyncio.sleep(LOOK_PAUSE)
            info = await self._info(asked)
        return info

    async def _note_discarded(self, asked: Lease, subscriber: Subscriber, events: int) -> None:
        """Log the events that this consumer has lost, and add them to its count; if NATS is away, the count is lost."""
        if not events:
            return
        channel = f"{subscriber.namespace}/{subscriber.channel}"
        words = "the server has discarded events before they were delivered"
        _log.warning(words, channel=channel, subscription=subscriber.full_name, events=events)
        subject = subscriber.names.discarded_subject(asked.consumer)
        try:
            await self._jetstream.add(subscriber.aside, subject, events, ASK_SECONDS)
        except (Refused, Unavailable) as error:
            _log.warning("discarded events could not be counted", channel=channel, events=events, error=str(error))

    async def _note_sunk(self, asked: Lease, subscriber: Subscriber, tally: Tally) -> None:
        """Count the events that went to the dead letter sink; if NATS is away, the count is lost."""
        events, sink = tally.counts[Outcome.DEAD_LETTERED], subscriber.dead_letter
        if not events:
            return
        now, to = clock.now(), sink.uri if sink is not None else ""
        subject = subscriber.names.sunk_subject(asked.consumer)
        try:
            await self._jetstream.change(
                subscriber.aside, subject, lambda before: sunk.added(before, events, tally.sunk, now, to), ASK_SECONDS
            )
        except (Refused, Unavailable) as error:
            channel = f"{subscriber.namespace}/{subscriber.channel}"
            words = "events that went to a dead letter sink could not be counted"
            _log.warning(words, channel=channel, events=events, error=str(error))

    def _tell_of_skew(self, subscriber: Subscriber, seconds: float) -> None:
        if seconds:
            words = "a retry is due later than its back-off allows: the clocks of this process and of another differ"
            channel = f"{subscriber.namespace}/{subscriber.channel}"
            named = {"channel": channel, "subscription": subscriber.full_name, "seconds": round(seconds, 1)}
            _log.warning(words, **named)

    async def _note_pull_trouble(self, asked: Lease, subscriber: Subscriber, words: str) -> None:
        """Note in the log and in the aside stream why pulls bring nothing; if NATS is away, the latter is lost."""
        channel = f"{subscriber.namespace}/{subscriber.channel}"
        named = {"channel": channel, "subscription": subscriber.full_name, "consumer": asked.consumer}
        _log.warning("pulls bring nothing", **named, error=words)
        subject = subscriber.names.pull_trouble_subject(asked.consumer)
        try:
            info = await self._info(asked)
            if info is not None:
                note = PullTrouble(words, pull_trouble.deliveries(info)).to_json()
                await self._jetstream.publish_aside(Encoded(subject, b"", note), ASK_SECONDS)
        except (Refused, Unavailable) as error:
            _log.warning("that pulls bring nothing could not be noted", **named, error=str(error))

    async def _info(self, asked: Lease) -> dict[str, Any] | None:
        return await self._api.find(f"CONSUMER.INFO.{asked.stream}.{asked.consumer}", timeout=ASK_SECONDS)

    def _effects(self, asked: Lease, subscriber: Subscriber, tally: Tally, shown: Shown) -> Effects:
        aside = subscriber.aside

        async def load(subject: str) -> bytes | None:
            return await self._jetstream.last(aside, subject, ASK_SECONDS)

        async def store(subject: str, data: bytes) -> None:
            await self._jetstream.publish_aside(Encoded(subject, b"", data), ASK_SECONDS)

        async def park(message: NatsMessage) -> None:
            await self._jetstream.publish_aside(encoded(message), ASK_SECONDS)

        async def drop(subject: str) -> None:
            await self._jetstream.forget(aside, subject, ASK_SECONDS)

        async def ack(message: Message) -> None:
            await self._jetstream.ack(message, ASK_SECONDS)

        survey = self._survey(asked, aside) if subscriber.order.kind is DeliveryOrder.BY_KEY else None
        return Effects(
            open_inbox=lambda on_message, on_end: self._jetstream.pull_inbox(
                asked.stream, asked.consumer, on_message, on_end, pinned=survey is not None
            ),
            post=self._posting.to(subscriber, shown),
            load=load,
            store=store,
            drop=drop,
            park=park,
            settle=self._jetstream.settle,
            ack=ack,
            hold=self._keep_alive.hold,
            release=self._keep_alive.release,
            in_hand=self._keep_alive.holds_twin,
            monotonic=clock.monotonic,
            now=clock.now,
            report=self._log.reporter(subscriber),
            survey=survey,
            short_way=self._short_way(subscriber, shown),
            shown=shown,
            claims=self._claims,
            tally=tally,
        )

    def _short_way(self, subscriber: Subscriber, shown: Shown) -> ShortEffects | None:
        sender = self._posting.sender(subscriber, shown)
        return None if sender is None else ShortEffects(sender.send, self._jetstream.settle_now)

    def _survey(self, asked: Lease, aside: str) -> Survey:
        async def unsettled() -> Unsettled:
            info = await self._info(asked)
            if info is None:
                raise Refused(f"consumer {asked.consumer} is gone", status=404)
            return Unsettled(int(info["num_ack_pending"]), int(info["delivered"]["stream_seq"]))

        async def records() -> list[tuple[int, StageRecord]]:
            subjects = names.stage_subjects(asked.consumer)
            async with aclosing(scan(self._client, self._api, aside, subjects, leave=True)) as found:
                read = [(message.subject, stage_record.from_json(message.data)) async for message in found]
            placed = [(subject.rpartition(".")[2], record) for subject, record in read if record is not None]
            return [(int(last), record) for last, record in placed if last.isascii() and last.isdigit()]

        def overdue(missing: int) -> None:
            words = {"stream": asked.stream, "consumer": asked.consumer, "missing": missing}
            _log.warning("events of an earlier lease did not come back, order is not sure", **words)

        return Survey(unsettled, records, overdue)

"""The POSTs of `forward`, counted by stage and status, and traced if a deployer wants spans."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

from headrace.core.delivery.bearer import Shown
from headrace.core.delivery.stage_record import Stage
from headrace.core.delivery.subscriber import Destination, Subscriber
from headrace.core.errors import InvalidEvent, InvalidSpec
from headrace.core.event import uri
from headrace.core.http import Headers, HttpAnswer
from headrace.forward import closing_headers
from headrace.host.forward_counts import ForwardCounts
from headrace.io.http import HttpClient
from headrace.io.http.posting import Sender
from headrace.io.process import clock
from headrace.io.tracing import PARENT, SpanKind, Tracing

Post = Callable[[Destination, Headers, bytes, timedelta], Awaitable[HttpAnswer]]

SPANS = {Stage.SUBSCRIBER: "deliver", Stage.REPLY: "reply", Stage.DEAD_LETTER: "dead letter"}
_FACTS = {
    b"ce-id": "cloudevents.event_id",
    b"ce-source": "cloudevents.event_source",
    b"ce-type": "cloudevents.event_type",
}


class Posting:
    """The HTTP client, counts and spans of all leases of a process; made inside the loop that uses it."""

    def __init__(
        self,
        most_answer_bytes: int,
        traced: Callable[[], Tracing | None] | None,
        http: Callable[[], HttpClient],
        counts: ForwardCounts,
    ) -> None:
        self._sink = http()
        self._counts = counts
        self._limit = most_answer_bytes
        self._tracing = traced() if traced is not None else None

    def to(self, subscriber: Subscriber, shown: Shown) -> Post:
        """A function that POSTs to the addresses of one subscriber, at any stage, with the tokens of a lease."""

        async def post(to: Destination, headers: Headers, body: bytes, timeout: timedelta) -> HttpAnswer:
            stage = _stage(to, subscriber)
            reply = subscriber.reply is not None and stage is Stage.SUBSCRIBER
            began = clock.monotonic()
            headers += shown.headers(to)
            answer = await self._sink.post(to, headers, body, timeout, self._limit, reply=reply)
            self._counts.posts(subscriber, stage).took(answer, clock.monotonic() - began)
            return answer

        return post if self._tracing is None else _traced(post, subscriber, self._tracing)

    def sender(self, subscriber: Subscriber, shown: Shown) -> Sender | None:
        """The sender of the short way to the subscriber itself; None: all its events go the long way."""
        # Spans cost more time than the long way itself, and so does an event that is written as JSON.
        if subscriber.subscriber is None or subscriber.structured or self._tracing is not None:
            return None
        try:
            return self._sink.sender(
                subscriber.subscriber,
                closing_headers(subscriber, Stage.SUBSCRIBER) + shown.headers(subscriber.subscriber),
                subscriber.policy.timeout,
                self._limit,
                reply=subscriber.reply is not None,
                timed=self._counts.posts(subscriber, Stage.SUBSCRIBER).took,
            )
        except (InvalidSpec, InvalidEvent):
            # The long way finds the fault anew for each event, and counts it.
            return None

    def trust(self, authorities: str) -> None:
        """Trust these, too (PEM), in each connection that is opened from now on."""
        self._sink.trust(authorities)

    async def close(self) -> None:
        await self._sink.close()
        if self._tracing is not None:
            await self._tracing.close()


def _stage(to: Destination, subscriber: Subscriber) -> Stage:
    # Identity, not equality: all three may be the same address.
    if to is subscriber.subscriber:
        return Stage.SUBSCRIBER
    return Stage.REPLY if to is subscriber.reply else Stage.DEAD_LETTER


def _traced(post: Post, subscriber: Subscriber, tracing: Tracing) -> Post:
    """`post` with a span for each POST, below the span in its headers."""
    fixed = {
        "http.request.method": "POST",
        "kn.channel.namespace": subscriber.namespace,
        "kn.channel.name": subscriber.channel,
        "kn.subscription.name": subscriber.name,
    }

    async def post_traced(to: Destination, headers: Headers, body: bytes, timeout: timedelta) -> HttpAnswer:
        if tracing.leaves_out(headers):
            return await post(to, headers, body, timeout)
        stage = _stage(to, subscriber)
        facts = {_FACTS[name]: value.decode("latin-1") for name, value in headers if name in _FACTS}
        attributes = {**fixed, **facts, "url.full": uri.hidden(to.uri)}
        with tracing.span(SPANS[stage], SpanKind.CLIENT, attributes, headers) as span:
            answer = await post(to, span.headers(headers), body, timeout)
            span.answered(answer.status, uri.hidden(answer.error))
            if stage is Stage.SUBSCRIBER and answer.header(PARENT) is None:
                # A reply without a span of its author goes on from this one.
                answer = answer._replace(headers=(*answer.headers, *span.context()))
        return answer

    return post_traced

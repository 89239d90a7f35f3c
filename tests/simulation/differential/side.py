"""One side of the comparison: a server, real or not, and a client of our own engine that carries commands out on it.

What it gives back is free of everything that must differ: times, names that a server draws, its version.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any

from headrace.core.errors import HeadraceError
from headrace.core.installation.nats_settings import NatsSettings
from headrace.core.nats.api_error import ApiError
from headrace.core.nats.jetstream import ack_tokens, pending_after
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.jetstream.scan import scan
from headrace.io.nats.client import Client, NatsSubscription
from headrace.io.nats.contract import Arrival
from tests.simulation.differential.commands import (
    SECOND,
    SUBJECTS,
    Ask,
    Command,
    Consume,
    Edit,
    Lane,
    Leave,
    Publish,
    Pull,
    Reconnect,
    Scan,
    Settle,
)

ASK_SECONDS = 3.0
# What no two servers say alike.
_OWN = {
    "ts",
    "created",
    "first_ts",
    "last_ts",
    "time",
    "last_active",
    "pinned_ts",
    "pinned_client_id",
    "pause_remaining",
    "_nats.ver",
    "_nats.level",
    "cluster",
    "stats",
}
_PUSHING = ("max_msgs_per_subject", "max_msgs", "max_bytes")
_OWN_HEADERS = {"nats-pin-id", "nats-time-stamp"}


class Side:
    """One lane on one server.

    Attributes:
        stream: its name, the same on both sides.
        arrivals: of each pull: messages and statuses.
        deliveries: ack subjects of all messages, in the order of their coming.
    """

    def __init__(self, url: str, name: str) -> None:
        self.stream = name
        self.arrivals: list[list[object]] = []
        self.deliveries: list[str] = []
        self._prefix = f"{name.lower()}."
        self._url = url
        self._pin = ""
        self._exact = True
        self._subscriptions: list[NatsSubscription | None] = []
        self._connect()

    def _connect(self) -> None:
        self._client = Client(NatsSettings(url=self._url))
        self._api = JetStreamApi(self._client)

    async def begin(self, lane: Lane) -> list[object]:
        """Make the stream and the first consumer."""
        made = await self._call("STREAM.CREATE.$S", self._stream_config(lane.stream))
        return [made, await self.carry_out(Consume(0, lane.consumer, "create"))]

    async def end(self) -> None:
        await self._call("STREAM.DELETE.$S")
        await self._client.close()

    async def ready(self) -> None:
        """After a restart of the server: wait for the connection, and for JetStream."""
        await self._client.ready(10)

    async def carry_out(self, command: Command) -> object:
        """Do it; the server's direct answer."""
        match command:
            case Publish():
                return [await self._publish(command) for _ in range(command.count)]
            case Pull():
                return await self._pull(command)
            case Settle():
                return await self._settle(command)
            case Leave(back):
                await self._leave(back)
            case Ask(subject, body):
                return await self._ask(subject, body)
            case Consume(consumer, config, action):
                name = f"C{consumer}"
                full = {"durable_name": name, "name": name, **config}
                body = {"stream_name": "$S", "config": full, "action": action}
                return await self._call(f"CONSUMER.CREATE.$S.{name}", body)
            case Edit(config):
                return await self._call("STREAM.UPDATE.$S", self._stream_config(config))
            case Scan(pattern, headers_only):
                return await self._scan(pattern, headers_only)
            case Reconnect():
                await self._client.close()
                self._subscriptions = [None] * len(self._subscriptions)
                self._connect()
            case _:
                pass
        return None

    async def snapshot(self) -> dict[str, object]:
        """All that can be seen of it now."""
        stream = await self._call("STREAM.INFO.$S")
        consumers = await self._call("CONSUMER.LIST.$S")
        numbers = [self._tokens(reply) for reply in self.deliveries]
        return {"stream": stream, "consumers": consumers, "arrivals": self.arrivals, "deliveries": numbers}

    async def _publish(self, command: Publish) -> object:
        subject = self._prefix + SUBJECTS[command.subject]
        headers = {"x-kind": "test"} if command.headers else {}
        if command.identity >= 0:
            headers["Nats-Msg-Id"] = f"id-{command.identity}"
        if command.expected >= 0:
            found = await self._call("STREAM.MSG.GET.$S", {"last_by_subj": subject})
            newest = found["message"]["seq"] if isinstance(found, dict) and "message" in found else 0
            headers["Nats-Expected-Last-Subject-Sequence"] = str(newest + command.expected)
        answer = await self._client.request(subject, b"x" * command.size, headers=headers, timeout=ASK_SECONDS)
        return _answer(answer)

    async def _pull(self, command: Pull) -> object:
        number = len(self.arrivals)
        into: list[object] = []
        self.arrivals.append(into)
        inbox = self._client.new_inbox()

        def arrived(arrival: Arrival) -> None:
            tokens = ack_tokens(arrival.reply) if arrival.reply else None
            if tokens is None:
                told = _answer(arrival)
                # How many heartbeats there are in a time is nobody's promise.
                if arrival.status != "100" or told not in into[-1:]:
                    into.append(told)
                return
            self._pin = arrival.headers.get("nats-pin-id", self._pin)
            self.deliveries.append(arrival.reply)
            into.append([number, arrival.subject, self._tokens(arrival.reply), _headers(arrival), len(arrival.data)])

        self._subscriptions.append(await self._client.subscribe(inbox, arrived))
        body: dict[str, Any] = {"batch": command.batch, "expires": int(command.seconds * SECOND)}
        if command.max_bytes:
            body["max_bytes"] = command.max_bytes
        if command.no_wait:
            body["no_wait"] = True
        if command.beat:
            body["idle_heartbeat"] = int(command.beat * SECOND)
        if command.group:
            body["group"] = command.group
        if command.pin:
            body["id"] = {"own": self._pin, "wrong": "NOBODY"}[command.pin]
        await self._client.ready(ASK_SECONDS)
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self.stream}.C{command.consumer}"
        await self._client.publish(subject, json.dumps(body).encode(), reply=inbox)
        await self._client.flush(ASK_SECONDS)
        return None

    async def _settle(self, command: Settle) -> object:
        if command.back >= len(self.deliveries):
            return "nothing to settle"
        reply = self.deliveries[-1 - command.back]
        if command.sync:
            try:
                answer = await self._client.request(reply, command.payload, timeout=0.5)
            except HeadraceError as error:
                return type(error).__name__
            return _answer(answer)
        await self._client.ready(ASK_SECONDS)
        await self._client.publish(reply, command.payload)
        await self._client.flush(ASK_SECONDS)
        return None

    async def _leave(self, back: int) -> None:
        if back < len(self._subscriptions):
            subscription = self._subscriptions[-1 - back]
            self._subscriptions[-1 - back] = None
            if subscription is not None:
                await subscription.close()
                await self._client.ready(ASK_SECONDS)
                await self._client.flush(ASK_SECONDS)

    async def _ask(self, subject: str, body: dict[str, Any] | None) -> object:
        if not subject.startswith("DIRECT"):
            return await self._call(subject, body)
        inbox, found, done = self._client.new_inbox(), [], asyncio.Event()

        def arrived(arrival: Arrival) -> None:
            found.append(_answer(arrival))
            if arrival.status or "batch" not in (body or {}):
                done.set()

        subscription = await self._client.subscribe(inbox, arrived)
        await self._client.ready(ASK_SECONDS)
        payload = json.dumps(self._filled(body)).encode() if body else b""
        await self._client.publish(f"$JS.API.{self._filled(subject)}", payload, reply=inbox)
        try:
            async with asyncio.timeout(ASK_SECONDS):
                await done.wait()
        except TimeoutError:
            found.append("silence")
        await subscription.close()
        return found

    async def _scan(self, pattern: str, headers_only: bool) -> object:
        found: list[object] = []
        filled = self._filled(pattern)
        messages = scan(self._client, self._api, self.stream, filled, headers_only=headers_only)
        try:
            async with aclosing(messages):
                async for message in messages:
                    found.append([message.subject, message.sequence, dict(message.headers), len(message.data)])
        except ApiError as error:
            found.append([error.code, error.err_code, error.description])
        except HeadraceError as error:
            found.append(repr(error))
        return found

    async def _call(self, subject: str, body: dict[str, Any] | None = None) -> Any:
        try:
            answer = await self._api.call(self._filled(subject), self._filled(body), timeout=ASK_SECONDS)
        except ApiError as error:
            return [error.code, error.err_code, error.description]
        except HeadraceError as error:
            return repr(error)
        return _shared(answer)

    def _stream_config(self, config: dict[str, Any]) -> dict[str, Any]:
        subjects = [f"{self._prefix}a.*", f"{self._prefix}b.>"]
        self._exact = self._exact and max(config[limit] for limit in _PUSHING) < 0
        return {"name": self.stream, "subjects": subjects, "storage": "file", **config}

    def _filled(self, value: Any) -> Any:
        """The value with names in the place of `$S` and `$0`."""
        if isinstance(value, str):
            return value.replace("$S", self.stream).replace("$0", self._prefix)
        if isinstance(value, dict):
            return {key: self._filled(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self._filled(one) for one in value]
        return value

    def _tokens(self, reply: str) -> list[object]:
        tokens = ack_tokens(reply)
        assert tokens is not None
        # A message that pushes another out of its stream may be counted before or after that one's room is used.
        left = pending_after(reply) if self._exact else "some"
        return [tokens.consumer, tokens.delivered, tokens.sequence, tokens.delivery, left]


def _shared(value: Any) -> Any:
    """The value without what is a server's own."""
    if isinstance(value, dict):
        return {key: _shared(one) for key, one in value.items() if key not in _OWN}
    if isinstance(value, list):
        return [_shared(one) for one in value]
    return value


def _headers(arrival: Arrival) -> dict[str, str]:
    return {name: value for name, value in arrival.headers.items() if name not in _OWN_HEADERS}


def _answer(arrival: Arrival) -> object:
    headers = _headers(arrival)
    if arrival.status == "503":
        # It names the subject, and an ack's has a time in it.
        headers.clear()
    return [arrival.status, arrival.description, headers, arrival.data.decode()]

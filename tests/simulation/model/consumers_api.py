"""The API's verbs for consumers: `(server, the tokens behind the verb, body)` gives the answer's members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation.model import blocks, consumer_config, refusals
from tests.simulation.model.consumer import Consumer
from tests.simulation.model.refusals import ApiFault, Unmodelled
from tests.simulation.model.stream import Stream
from tests.simulation.model.streams_api import found

if TYPE_CHECKING:
    from tests.simulation.model.server import JetStreamModel

_PAGE = 256
_NAME_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def create(server: JetStreamModel, tokens: list[str], body: dict[str, Any]) -> dict[str, Any]:
    """Make one, or change one: whichever the `action` allows."""
    asked, action = dict(body.get("config") or {}), body.get("action", "")
    if body.get("stream_name") != tokens[0]:
        raise ApiFault(400, 10056, "stream name in subject does not match request")
    name = tokens[1] if len(tokens) > 1 else asked.get("name", "")
    if len(tokens) == 1 and asked.get("durable_name"):
        raise ApiFault(400, 10019, "consumer expected to be ephemeral but a durable name was set in request")
    if len(tokens) > 1:
        if asked.get("durable_name", name) != name:
            raise ApiFault(400, 10017, "consumer name in subject does not match durable name in request")
        asked["name"] = name
    if len(tokens) > 2:
        if asked.get("filter_subjects"):
            raise ApiFault(400, 10137, "consumer with multiple subject filters cannot use subject based API")
        if asked.get("filter_subject") != ".".join(tokens[2:]):
            raise ApiFault(400, 10131, "Consumer create request did not match filtered subject from create subject")
    if asked.get("num_replicas", 0) > 1:
        raise ApiFault(500, 10074, "replicas > 1 not supported in non-clustered mode")
    stream = found(server, tokens[0])
    existing = stream.consumers.get(name)
    if existing is not None:
        asked.pop("pause_until", None)
        if existing.config.get("pause_until"):
            asked["pause_until"] = existing.config["pause_until"]
    config = consumer_config.complete(asked, stream.config)
    if existing is not None:
        return _answer(_change(existing, config, action))
    if action == "update":
        raise ApiFault(400, 10149, "consumer does not exist")
    consumer_config.check_new(config, stream)
    return _answer(_make(stream, name or _any_name(server), config))


def info(server: JetStreamModel, tokens: list[str], body: dict[str, Any]) -> dict[str, Any]:
    return described(_found(server, tokens))


def listing(server: JetStreamModel, tokens: list[str], body: dict[str, Any]) -> dict[str, Any]:
    stream = found(server, tokens[0])
    consumers = sorted(stream.consumers.values(), key=lambda consumer: consumer.name)
    offset = min(max(0, body.get("offset", 0)), len(consumers))
    page = [described(consumer, dynamic=False) for consumer in consumers[offset : offset + _PAGE]]
    return {"total": len(consumers), "offset": offset, "limit": _PAGE, "consumers": page}


def delete(server: JetStreamModel, tokens: list[str], body: dict[str, Any]) -> dict[str, Any]:
    _found(server, tokens).delete()
    return {"success": True}


def pause(server: JetStreamModel, tokens: list[str], body: dict[str, Any]) -> dict[str, Any]:
    consumer = _found(server, tokens)
    until = body.get("pause_until", "")
    config = {key: value for key, value in consumer.config.items() if key != "pause_until"}
    if until:
        config["pause_until"] = blocks.moment(blocks.from_moment(until))
    consumer.edit(consumer_config.marked(config))
    answer: dict[str, Any] = {"paused": consumer.paused, "pause_until": until or "0001-01-01T00:00:00Z"}
    if consumer.paused:
        answer["pause_remaining"] = blocks.from_moment(until) - server.now()
    return answer


def reset(server: JetStreamModel, tokens: list[str], body: dict[str, Any]) -> dict[str, Any]:
    """Let one go on elsewhere, as if it had delivered nothing yet; 0 is behind its floor."""
    consumer, sequence = _found(server, tokens), int(body.get("seq", 0))
    config = consumer.config
    policy, kept = config["deliver_policy"], consumer.stream.kept
    if sequence == 0:
        sequence = consumer.floor_sequence + 1
    elif policy == "by_start_sequence" and sequence < config["opt_start_seq"]:
        raise ApiFault(400, 10204, "invalid reset: below start seq")
    elif policy == "by_start_time" and sequence < kept.since(blocks.from_moment(config["opt_start_time"])):
        raise ApiFault(400, 10204, "invalid reset: below start time")
    elif policy in ("new", "last"):
        raise ApiFault(400, 10204, "invalid reset: not allowed")
    consumer.reset(sequence)
    return {**described(consumer), "reset_seq": sequence}


def exists(server: JetStreamModel, tokens: list[str]) -> bool:
    stream = server.streams.get(tokens[0])
    return stream is not None and tokens[1] in stream.consumers


def unpin(server: JetStreamModel, tokens: list[str], body: dict[str, Any]) -> dict[str, Any]:
    if not body.get("group"):
        raise Unmodelled("to unpin no group")
    consumer = _found(server, tokens)
    if body["group"] not in consumer.config.get("priority_groups", ()):
        raise ApiFault(400, 10160, "Provided priority group does not exist for this consumer")
    consumer.pulls.pin.let_go()
    consumer.signal()
    return {}


def pull(server: JetStreamModel, tokens: list[str], reply: str, data: bytes) -> list[tuple[bytes, bytes]] | None:
    """CONSUMER.MSG.NEXT: it is answered by messages and a status, or not at all; None: there is no such consumer."""
    stream = server.streams.get(tokens[0])
    consumer = stream.consumers.get(tokens[1]) if stream is not None else None
    if consumer is None:
        return None
    if reply:
        consumer.pulls.add(reply, data, consumer.num_pending() + len(consumer.unsettled.queue))
        consumer.signal()
    return []


def described(consumer: Consumer, *, dynamic: bool = True) -> dict[str, Any]:
    """What INFO says of a consumer; a list leaves out the server's own marks."""
    saved, config = consumer.saved, dict(consumer.config)
    if dynamic:
        config["metadata"] = {**config.get("metadata", {}), "_nats.ver": "2.15.1", "_nats.level": "5"}
    consumer.pulls.expire(False)
    shown: dict[str, Any] = {
        "stream_name": consumer.stream.name,
        "name": consumer.name,
        "created": blocks.moment(consumer.created),
        "config": config,
        "delivered": {"consumer_seq": saved.delivery, "stream_seq": saved.sequence},
        "ack_floor": {"consumer_seq": saved.floor_delivery, "stream_seq": saved.floor_sequence},
        "num_ack_pending": len(consumer.pending),
        "num_redelivered": len(consumer.counts),
        "num_waiting": consumer.waiting,
        "num_pending": consumer.num_pending(),
        "ts": blocks.moment(consumer.stream.server.now()),
    }
    if consumer.paused:
        shown["paused"] = True
        shown["pause_remaining"] = blocks.from_moment(config["pause_until"]) - consumer.stream.server.now()
    if groups := config.get("priority_groups"):
        group: dict[str, Any] = {"group": groups[0], "pinned_ts": "0001-01-01T00:00:00Z"}
        if (pin := consumer.pulls.pin).id:
            group |= {"pinned_client_id": pin.id, "pinned_ts": blocks.moment(pin.since)}
        shown["priority_groups"] = [group]
    return shown


def _answer(consumer: Consumer) -> dict[str, Any]:
    """What is told to who makes or changes it: the first is told how it was when it began, even before a change."""
    info, consumer.first_info = consumer.first_info, None
    return info or described(consumer)


def _make(stream: Stream, name: str, config: dict[str, Any]) -> Consumer:
    config["name"] = name
    consumer = stream.consumers[name] = Consumer(stream, name, config)
    first = consumer_config.first_sequence(config, stream.kept)
    consumer.next_sequence = first
    consumer.floor_sequence = max(0, first - 1)
    consumer.saved.start_at(max(0, first - 1))
    stream.server.disk.made(consumer)
    consumer.begin()
    consumer.first_info = described(consumer)
    return consumer


def _change(consumer: Consumer, config: dict[str, Any], action: str) -> Consumer:
    if action == "create" and config != consumer.config:
        raise ApiFault(400, 10148, "consumer already exists")
    consumer_config.check_change(consumer.config, config, consumer)
    consumer.edit(config)
    return consumer


def _found(server: JetStreamModel, tokens: list[str]) -> Consumer:
    consumer = found(server, tokens[0]).consumers.get(tokens[1])
    if consumer is None:
        raise refusals.consumer_not_found()
    return consumer


def _any_name(server: JetStreamModel) -> str:
    return "".join(server.random.choices(_NAME_LETTERS, k=8))

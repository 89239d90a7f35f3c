"""The API's verbs for streams: `(server, the tokens behind the verb, body)` gives the answer's members."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from tests.simulation.model import blocks, refusals, stream_config
from tests.simulation.model.refusals import ApiFault, Unmodelled
from tests.simulation.model.stream import Stream
from tests.simulation.model.subjects import collide, matches

if TYPE_CHECKING:
    from tests.simulation.model.server import JetStreamModel

_PAGE = 256
_NAMES = 1024
_SUBJECTS = 100_000


def create(server: JetStreamModel, tokens: list[str], body: dict[str, Any]) -> dict[str, Any]:
    name = tokens[0]
    if body.get("name") != name:
        raise ApiFault(400, 10056, "stream name in subject does not match request")
    config = stream_config.complete(body)
    existing = server.streams.get(name)
    if existing is not None:
        if existing.config != config:
            raise ApiFault(400, 10058, "stream name already in use with a different configuration")
        return {**described(existing), "did_create": True}
    _refuse_overlap(server, name, config)
    server.streams[name] = Stream(server, config)
    return {**described(server.streams[name]), "did_create": True}


def update(server: JetStreamModel, tokens: list[str], body: dict[str, Any]) -> dict[str, Any]:
    config = stream_config.complete(body)
    if config["name"] != tokens[0]:
        raise ApiFault(400, 10056, "stream name in subject does not match request")
    stream = found(server, tokens[0])
    config = stream_config.changed(stream.config, config)
    most = config.get("consumer_limits", {}).get("max_ack_pending", 0)
    if most and most != stream.config.get("consumer_limits", {}).get("max_ack_pending", 0):
        above = [one.name for one in stream.consumers.values() if one.config.get("max_ack_pending", 0) > most]
        if above:
            raise ApiFault(500, 10069, f"change to limits violates consumers: {', '.join(above)}")
    _refuse_overlap(server, stream.name, config)
    stream.config = config
    stream.trim()
    stream.watch_age_anew()
    return described(stream)


def delete(server: JetStreamModel, tokens: list[str], body: dict[str, Any]) -> dict[str, Any]:
    stream = found(server, tokens[0])
    for consumer in list(stream.consumers.values()):
        consumer.delete()
    stream.stop()
    server.disk.forget_stream(stream)
    del server.streams[stream.name]
    return {"success": True}


def info(server: JetStreamModel, tokens: list[str], body: dict[str, Any]) -> dict[str, Any]:
    _only(body, "subjects_filter", "offset", "deleted_details")
    stream = found(server, tokens[0])
    answer = {**described(stream), "total": 0, "offset": 0, "limit": 0}
    if body.get("subjects_filter"):
        subjects = stream.kept.subjects(body["subjects_filter"])
        if subjects:
            offset = max(0, body.get("offset", 0))
            shown = subjects[offset : offset + _SUBJECTS]
            answer["state"]["subjects"] = {subject: len(stream.kept.of(subject)) for subject in shown}
            answer |= {"total": len(subjects), "offset": offset, "limit": _SUBJECTS}
    return answer


def names(server: JetStreamModel, tokens: list[str], body: dict[str, Any]) -> dict[str, Any]:
    _only(body, "subject", "offset")
    streams = _filtered(server, body)
    offset = min(max(0, body.get("offset", 0)), len(streams))
    page = [stream.name for stream in streams[offset : offset + _NAMES]]
    return {"total": len(streams), "offset": offset, "limit": _NAMES, "streams": page or None}


def listing(server: JetStreamModel, tokens: list[str], body: dict[str, Any]) -> dict[str, Any]:
    _only(body, "subject", "offset")
    streams = _filtered(server, body)
    offset = min(max(0, body.get("offset", 0)), len(streams))
    page = [described(stream) for stream in streams[offset : offset + _PAGE]]
    return {"total": len(streams), "offset": offset, "limit": _PAGE, "streams": page or None}


def purge(server: JetStreamModel, tokens: list[str], body: dict[str, Any]) -> dict[str, Any]:
    _only(body, "filter", "seq", "keep")
    if body.get("seq") and body.get("keep"):
        raise refusals.bad_request()
    stream = found(server, tokens[0])
    if stream.config.get("sealed"):
        raise refusals.sealed()
    if stream.config.get("deny_purge"):
        raise ApiFault(500, 10110, "stream purge not permitted")
    purged = stream.purge(body.get("filter", ""), body.get("seq", 0), body.get("keep", 0))
    return {"success": True, "purged": purged}


def message(server: JetStreamModel, tokens: list[str], body: dict[str, Any]) -> dict[str, Any]:
    _only(body, "seq", "next_by_subj", "last_by_subj")
    start, following, last = body.get("seq", 0), body.get("next_by_subj", ""), body.get("last_by_subj", "")
    if (start and last) or (following and last) or not (start or following or last):
        raise refusals.bad_request()
    stream = found(server, tokens[0])
    sequence = stream.kept.next([following], start) if following else start or stream.kept.last_of(last)
    stored = stream.messages.get(sequence)
    if stored is None:
        raise refusals.no_message()
    shown: dict[str, Any] = {"subject": stored.subject, "seq": sequence, "time": blocks.moment(stored.time)}
    for key, value in (("hdrs", stored.headers), ("data", stored.data)):
        if value:
            shown[key] = base64.b64encode(value).decode()
    return {"message": shown}


def delete_message(server: JetStreamModel, tokens: list[str], body: dict[str, Any]) -> dict[str, Any]:
    _only(body, "seq", "no_erase")
    if not body:
        raise refusals.bad_request()
    stream = found(server, tokens[0])
    if stream.config.get("sealed"):
        raise refusals.sealed()
    if stream.config.get("deny_delete"):
        raise ApiFault(500, 10057, "message delete not permitted")
    sequence = body.get("seq", 0)
    if sequence > stream.kept.last:
        raise ApiFault(500, 10057, "stream store EOF")
    if sequence < max(1, stream.kept.first):
        raise ApiFault(500, 10057, "no message found")
    if sequence not in stream.messages:
        raise ApiFault(400, 10043, f"sequence {sequence} not found")
    stream.remove(sequence)
    return {"success": True}


def found(server: JetStreamModel, name: str) -> Stream:
    stream = server.streams.get(name)
    if stream is None:
        raise refusals.stream_not_found()
    return stream


def described(stream: Stream) -> dict[str, Any]:
    """What INFO says of a stream."""
    metadata = {**stream.config.get("metadata", {}), "_nats.ver": "2.15.1", "_nats.level": "5"}
    return {
        "config": {**stream.config, "metadata": metadata},
        "created": blocks.moment(stream.created),
        "state": stream.state(),
        "ts": blocks.moment(stream.server.now()),
    }


def _filtered(server: JetStreamModel, body: dict[str, Any]) -> list[Stream]:
    subject = body.get("subject", "")
    streams = sorted(server.streams.values(), key=lambda stream: stream.name)
    return [one for one in streams if not subject or any(collide(subject, own) for own in one.config["subjects"])]


def _refuse_overlap(server: JetStreamModel, name: str, config: dict[str, Any]) -> None:
    others = (stream for stream in server.streams.values() if stream.name != name)
    taken = [subject for stream in others for subject in stream.config["subjects"]]
    if any(collide(one, other) for one in config["subjects"] for other in taken):
        raise ApiFault(400, 10065, "subjects overlap with an existing stream")
    own = config["subjects"]
    if any(matches(one, other) for i, one in enumerate(own) for j, other in enumerate(own) if i != j):
        raise Unmodelled(f"subjects of one stream that overlap: {own}")


def _only(body: dict[str, Any], *known: str) -> None:
    if unknown := body.keys() - set(known):
        raise Unmodelled(f"the members {sorted(unknown)} of a request")

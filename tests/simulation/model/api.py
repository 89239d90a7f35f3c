"""The JetStream API: from a request's subject to what carries it out, and its answer as bytes.

Each verb that our product uses is here; any other is `Unmodelled`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.simulation.model import consumers_api, direct, refusals, streams_api
from tests.simulation.model.refusals import ApiFault, Unmodelled

if TYPE_CHECKING:
    from tests.simulation.model.server import JetStreamModel

PREFIX = "$JS.API."
Answers = list[tuple[bytes, bytes]]
"""Header block and data of each message that answers a request."""

_TYPE = "io.nats.jetstream.api.v1."
_Verb = Callable[["JetStreamModel", list[str], dict[str, Any]], dict[str, Any]]
# By the beginning of the subject: how many tokens name the verb, the type of the answer, and the deed.
_VERBS: dict[str, tuple[int, str, _Verb]] = {
    "STREAM.CREATE": (2, "stream_create_response", streams_api.create),
    "STREAM.UPDATE": (2, "stream_update_response", streams_api.update),
    "STREAM.DELETE": (2, "stream_delete_response", streams_api.delete),
    "STREAM.INFO": (2, "stream_info_response", streams_api.info),
    "STREAM.NAMES": (2, "stream_names_response", streams_api.names),
    "STREAM.LIST": (2, "stream_list_response", streams_api.listing),
    "STREAM.PURGE": (2, "stream_purge_response", streams_api.purge),
    "STREAM.MSG.GET": (3, "stream_msg_get_response", streams_api.message),
    "STREAM.MSG.DELETE": (3, "stream_msg_delete_response", streams_api.delete_message),
    "CONSUMER.CREATE": (2, "consumer_create_response", consumers_api.create),
    "CONSUMER.INFO": (2, "consumer_info_response", consumers_api.info),
    "CONSUMER.LIST": (2, "consumer_list_response", consumers_api.listing),
    "CONSUMER.DELETE": (2, "consumer_delete_response", consumers_api.delete),
    "CONSUMER.PAUSE": (2, "consumer_pause_response", consumers_api.pause),
    "CONSUMER.RESET": (2, "consumer_reset_response", consumers_api.reset),
    "CONSUMER.UNPIN": (2, "consumer_unpin_response", consumers_api.unpin),
}


def take(server: JetStreamModel, subject: str, reply: str, headers: bytes, data: bytes) -> Answers | None:
    """Carry out a request; None: nobody is there to take it."""
    if headers:
        raise Unmodelled(f"a request with headers: {subject}")
    tokens = subject.removeprefix(PREFIX).split(".")
    if tokens[:3] == ["CONSUMER", "MSG", "NEXT"]:
        return consumers_api.pull(server, tokens[3:], reply, data)
    if tokens[:2] == ["DIRECT", "GET"]:
        return direct.get(server, tokens[2:], data)
    verb = ".".join(tokens[:3]) if tokens[1:2] == ["MSG"] else ".".join(tokens[:2])
    if verb == "CONSUMER.RESET" and not consumers_api.exists(server, tokens[2:]):
        # The consumer itself hears it.
        return None
    if verb not in _VERBS:
        raise Unmodelled(f"the request {subject}")
    length, kind, act = _VERBS[verb]
    answer: dict[str, Any] = {"type": _TYPE + kind}
    try:
        answer.update(act(server, tokens[length:], _body(data)))
    except ApiFault as fault:
        answer["error"] = fault.as_json()
    return [(b"", refusals.as_bytes(answer))]


def without_leader(server: JetStreamModel, verb: str, reply: str) -> bool:
    """What a server says that has no leader now; False: nobody is there to take the request."""
    if verb in ("NEXT", "DIRECT_GET"):
        return False
    answer = {"type": "", "error": refusals.no_leader().as_json()}
    server.answer(reply, refusals.as_bytes(answer), about=verb)
    return True


def _body(data: bytes) -> dict[str, Any]:
    if not data.strip():
        return {}
    body = json.loads(data)
    if not isinstance(body, dict):
        raise Unmodelled(f"a request that is no JSON object: {data[:80]!r}")
    return body

"""The calls in NATS that one `reconcile` asks of another, whose pods have the credentials of a channel or namespace.

    POST /nats   {"call": "stream", "arguments": ["KN_SHOP__ORDERS"]}
    200          {"result": …} | {"failure": "NotLetIn", "words": "…", "status": 403}

Knows the form only: the calls are the methods of `headrace.reconcile.ports.Administration`, and `named` of `Elsewhere`.
Both sides use this module, so that a call means the same on both. Neither trusts the other, and each checks the form:
the owner of a namespace chooses the program that answers there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from headrace.core.errors import HeadraceError, InvalidSpec, NotLetIn, Refused, Unavailable
from headrace.core.nats import action as actions
from headrace.core.nats.action import Action, Done, Outcome, Rejected

PATH = "/nats"
LONGEST_WORDS = 1024
"""Characters of the server's words, as the other side reports them: they end up in a status."""
MOST_VALUES = 500_000
"""Values in one answer: thousands of consumers have some 50 each. An empty object takes 3 bytes there, and 72 here."""
LONGEST_WIDE = 4 * 1024 * 1024
"""Bytes of an answer with a character of four bytes: then Python takes four for each other character, too."""
_WIDE = re.compile(rb"[\xf0-\xf4]|\\u[dD][89abAB]")

# The arguments of each call, and the shape of its result.
_TEXT, _NUMBER, _ACTION = "text", "number", "action"
_TAKES: Mapping[str, tuple[str, ...]] = {
    "stream": (_TEXT,),
    "count": (_TEXT, _TEXT),
    "consumers": (_TEXT,),
    "info": (_TEXT, _TEXT),
    "consumer_infos": (_TEXT,),
    "number": (_TEXT, _TEXT),
    "text": (_TEXT, _TEXT),
    "add": (_TEXT, _TEXT, _NUMBER),
    "no_room": (_TEXT,),
    "max_payload": (),
    "first_since": (_TEXT, _TEXT),
    "carry_out": (_ACTION,),
    "named": (),
}
CALLS = tuple(_TAKES)
_ACTIONS = {
    one.__name__: one
    for one in (
        actions.CreateStream,
        actions.UpdateStream,
        actions.DeleteStream,
        actions.PurgeSubjects,
        actions.CreateConsumer,
        actions.UpdateConsumer,
        actions.DeleteConsumer,
        actions.KeepText,
        actions.ParkForgotten,
        actions.ResetConsumer,
    )
}


@dataclass(frozen=True, slots=True)
class Call:
    """One call; `name` is one of CALLS, and an action stands among the arguments unchanged."""

    name: str
    arguments: tuple[Any, ...] = ()

    def to_bytes(self) -> bytes:
        arguments = [_plain(one) for one in self.arguments]
        return json.dumps({"call": self.name, "arguments": arguments}).encode()


def read_call(body: bytes) -> Call:
    """Read a request.

    Raises:
        InvalidSpec: the body is no call.
    """
    try:
        found = json.loads(body)
        name, given = found["call"], found["arguments"]
        if name not in _TAKES:
            raise InvalidSpec(f"body.call is {str(name)[:40]!r}: it should be one of {', '.join(CALLS)}", field="body")
        if not isinstance(given, list):
            raise TypeError("arguments")
        takes = _TAKES[name]
        return Call(name, tuple(_parse(one, kind) for one, kind in zip(given, takes, strict=True)))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidSpec(
            f"body is no call ({type(error).__name__}): send what reconcile sends", field="body"
        ) from None


def answer(result: Any) -> dict[str, Any]:
    """The answer to a call that went well."""
    match result:
        case Done(config):
            return {"result": {"done": config}}
        case Rejected(words):
            return {"result": {"rejected": words}}
        case _:
            return {"result": result}


def failure(error: Refused | Unavailable) -> dict[str, Any]:
    """The answer to a call that NATS refused, or that found NATS away."""
    kind = next(one.__name__ for one in (NotLetIn, Unavailable, Refused) if isinstance(error, one))
    return {"failure": kind, "words": str(error), "status": getattr(error, "status", 503)}


def read_answer(body: bytes, call: str) -> Any:
    """The result of a call, checked to have the shape that this call gives.

    Raises:
        NotLetIn, Unavailable, Refused: what the call raised on the other side.
        Unavailable: something other than a `reconcile` has answered.
    """
    wide = len(body) > LONGEST_WIDE and _WIDE.search(body)
    if wide or sum(map(body.count, (b",", b"{", b"["))) > MOST_VALUES:
        raise Unavailable(f"an answer of {len(body)} bytes is none of reconcile: {body[:100]!r}")
    try:
        found = json.loads(body)
        if "result" in found:
            result = found["result"]
            if not _fits(result, call):
                raise TypeError(call)
            return result
        raised = _failure(str(found["failure"]), str(found["words"])[:LONGEST_WORDS], found["status"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Unavailable(f"this is no answer of reconcile: {body[:100]!r}") from None
    raise raised


def read_outcome(result: Any) -> Outcome:
    """The outcome of an action."""
    return Rejected(str(result["rejected"])[:LONGEST_WORDS]) if "rejected" in result else Done(result["done"])


def _fits(result: Any, call: str) -> bool:
    match call:
        case "stream" | "info":
            return result is None or _is_info(result)
        case "consumers" | "consumer_infos":
            return isinstance(result, list) and all(_is_info(one) for one in result)
        case "no_room":
            return isinstance(result, str) and len(result) <= LONGEST_WORDS
        case "count" | "number" | "max_payload" | "first_since":
            return isinstance(result, int) and not isinstance(result, bool)
        case "text":
            return result is None or isinstance(result, str)
        case "carry_out":
            return isinstance(result, dict) and ("rejected" in result or isinstance(result.get("done"), dict))
        case "named":
            return isinstance(result, dict)
        case _:
            return result is None


def _is_info(found: Any) -> bool:
    """Is it a configuration, or the info of a stream or consumer, in all parts that our code reads?"""
    if not isinstance(found, dict):
        return False
    metadata = found.get("metadata") or {}
    if not (isinstance(metadata, dict) and all(isinstance(value, str) for value in metadata.values())):
        return False
    nested = [found[key] for key in ("config", "state") if found.get(key) is not None]
    return all(_is_info(one) for one in nested)


def _failure(kind: str, words: str, status: Any) -> HeadraceError:
    match kind:
        case "NotLetIn":
            return NotLetIn(words)
        case "Refused":
            known = isinstance(status, int) and not isinstance(status, bool) and 400 <= status < 600
            return Refused(words, status=status if known else 503)
        case _:
            return Unavailable(words)


def _plain(argument: Any) -> Any:
    name = type(argument).__name__
    if name not in _ACTIONS:
        return argument
    return {"action": name, **{field.name: getattr(argument, field.name) for field in fields(argument)}}


def _parse(argument: Any, kind: str) -> Any | Action:
    if kind == _TEXT and isinstance(argument, str):
        return argument
    if kind == _NUMBER and isinstance(argument, int) and not isinstance(argument, bool) and argument >= 0:
        return argument
    if kind == _ACTION and isinstance(argument, dict):
        given = dict(argument)
        made = _ACTIONS[given.pop("action")](**given)
        if all(_is_part(field.name, getattr(made, field.name)) for field in fields(made)):
            return made
    raise TypeError(kind)


def _is_part(name: str, value: Any) -> bool:
    # An empty filter would mean all subjects.
    if name == "config":
        return isinstance(value, dict) and isinstance(value.get("name"), str) and bool(value["name"])
    if name == "sequence":
        return isinstance(value, int) and not isinstance(value, bool) and value > 0
    return isinstance(value, str) and bool(value)

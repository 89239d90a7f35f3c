"""What one `reconcile` asks of another, whose pods come to NATS with the credentials of a channel or namespace.

    POST /nats   {"call": "stream", "arguments": ["KN_SHOP__ORDERS"]}
    200          {"result": …} | {"failure": "NotLetIn", "words": "…", "status": 403}

Knows the form only; what is called is `headrace.reconcile.ports.Administration`, and `named` of `Elsewhere`. Both
sides are this module, so that a call means the same on both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from headrace.core import action as actions
from headrace.core.action import Action, Done, Outcome, Rejected
from headrace.core.errors import HeadraceError, InvalidSpec, NotLetIn, Refused, Unavailable

PATH = "/nats"
CALLS = ("stream", "count", "consumers", "info", "consumer_infos", "number", "add", "carry_out", "named")
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
    )
}


@dataclass(frozen=True, slots=True)
class Call:
    """One call; `name` is one of CALLS, and an action is among the arguments as itself."""

    name: str
    arguments: tuple[Any, ...] = ()

    def to_bytes(self) -> bytes:
        """The body of the request."""
        written = [_written(one) for one in self.arguments]
        return json.dumps({"call": self.name, "arguments": written}).encode()


def read_call(body: bytes) -> Call:
    """Read a request.

    Raises:
        InvalidSpec: it is none.
    """
    try:
        found = json.loads(body)
        name, arguments = found["call"], tuple(_read(one) for one in found["arguments"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidSpec(
            f"body is no call ({type(error).__name__}): send what reconcile sends", field="body"
        ) from None
    if name not in CALLS:
        raise InvalidSpec(f"body.call is {str(name)[:40]!r}: it should be one of {', '.join(CALLS)}", field="body")
    return Call(name, arguments)


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
    """The answer to one that NATS did not let go well."""
    kind = next(one.__name__ for one in (NotLetIn, Unavailable, Refused) if isinstance(error, one))
    return {"failure": kind, "words": str(error), "status": getattr(error, "status", 503)}


def read_answer(body: bytes) -> Any:
    """The result.

    Raises:
        NotLetIn, Unavailable, Refused: as the other side has met it.
        Unavailable: something else has answered.
    """
    try:
        found = json.loads(body)
        if "result" in found:
            return found["result"]
        raised = _failure(str(found["failure"]), str(found["words"]), int(found["status"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Unavailable(f"this is no answer of reconcile: {body[:100]!r}") from None
    raise raised


def read_outcome(result: Any) -> Outcome:
    """What came of an action."""
    return Rejected(str(result["rejected"])) if "rejected" in result else Done(result["done"])


def _failure(kind: str, words: str, status: int) -> HeadraceError:
    match kind:
        case "NotLetIn":
            return NotLetIn(words)
        case "Refused":
            return Refused(words, status=status)
        case _:
            return Unavailable(words)


def _written(argument: Any) -> Any:
    name = type(argument).__name__
    if name not in _ACTIONS:
        return argument
    return {"action": name, **{field.name: getattr(argument, field.name) for field in fields(argument)}}


def _read(argument: Any) -> Any | Action:
    if not isinstance(argument, Mapping):
        return argument
    given = dict(argument)
    return _ACTIONS[given.pop("action")](**given)

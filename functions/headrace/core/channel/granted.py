"""What the server grants of a request: a default of ours is lowered to the server's limit, and the answer is compared.

A server, an account or a stream may have limits, and settings that every consumer inherits. A wish of the author that
is beyond a limit is refused in the server's words. A setting that the author left to us is asked for once more, within
the limit. Pure; called by `headrace.reconcile` around each action (ADR 041).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta

from headrace.core import duration
from headrace.core.channel.consumer import UNDONE
from headrace.core.channel.stream_config import nanoseconds
from headrace.core.conditions import Condition
from headrace.core.delivery import order_spec
from headrace.core.errors import InvalidSpec
from headrace.core.nats.action import (
    Action,
    CreateConsumer,
    CreateStream,
    DeleteConsumer,
    Done,
    Outcome,
    Rejected,
    UpdateConsumer,
    UpdateStream,
)
from headrace.core.raw_config import Config, differs

MAX_ACK_PENDING, DUPLICATE_WINDOW = "max_ack_pending", "duplicate_window"
# By the key of the configuration: the manifest's name, and the beginning of the server's refusal (NATS 2.15.1).
_DEFAULTS = {
    MAX_ACK_PENDING: ("spec.consumerConfigTemplate.maxAckPending", "consumer max ack pending exceeds "),
    DUPLICATE_WINDOW: ("spec.stream.config.duplicateWindow", "duplicates window can not be larger "),
}
_LIMIT = re.compile(r"limit of (\S+)\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Lowered:
    """A default of ours that gave way to a limit of the server.

    Attributes:
        field: the manifest's name of the setting, which the manifest leaves open.
        ours, holds: as the server's configuration has them.
        words: the server's words about the default.
    """

    field: str
    ours: int
    holds: int
    words: str

    def __str__(self) -> str:
        ours, holds = _for_people(self.field, self.ours), _for_people(self.field, self.holds)
        return f"{self.field} is not given, and {holds} holds in place of our default of {ours}: {self.words}"


def lowered(action: Action, refused: Rejected, defaults: Collection[str]) -> tuple[Action, Lowered] | None:
    """The action to send in place of one that the server refused for a default of ours; None for another reason.

    Args:
        defaults: keys of the action's configuration whose values are ours, not the author's.
    """
    match action:
        case CreateStream(config) | UpdateStream(config) | CreateConsumer(_, config) | UpdateConsumer(_, config):
            pass
        case _:
            return None
    for key in defaults:
        field, begins = _DEFAULTS[key]
        limit = _limit(refused.words) if refused.words.startswith(begins) else 0
        ours = int(config.get(key) or 0)
        if 0 < limit < ours:
            return replace(action, config={**config, key: limit}), Lowered(field, ours, limit, refused.words)
    return None


def harm(action: Action, outcome: Outcome) -> str:
    """Why a created consumer would do harm, since it is not as asked for; empty when it is.

    The answer tells its real configuration: older servers drop settings, and a stream's limits are inherited.
    """
    match action, outcome:
        case ((CreateConsumer(stream, asked) | UpdateConsumer(stream, asked)), Done(got)):
            return order_spec.too_old(asked, got) or inherited(stream, asked, got)
    return ""


def inherited(stream: str, asked: Config, got: Config) -> str:
    """The harmful settings that a consumer has although it was asked to be made without them; empty for none."""
    kept = [key for key, value in UNDONE.items() if key in asked and differs(got, {key: value})]
    if not kept:
        return ""
    told = ", ".join(f"{key} {_for_people(key, got.get(key))}" for key in kept)
    advice = f"take {' and '.join(kept)} out of the consumer_limits of stream {stream}"
    return f"NATS makes every consumer with {told}, {_HARM.get(kept[0], 'which deliveries would break with')}: {advice}"


_HARM = {
    "inactive_threshold": "with which one goes while its subscriber idles and is made anew, so that all comes again",
}


def inherits(stream: Config | None) -> str:
    """The same for a consumer yet to be made, from the configuration of its stream."""
    limits = (stream or {}).get("consumer_limits") or {}
    return inherited(str((stream or {}).get("name")), UNDONE, limits)


def undo(action: Action) -> Action | None:
    """The action that takes back a harmful one; None for an update, whose consumer has a position to lose."""
    return DeleteConsumer(action.stream, str(action.config["name"])) if isinstance(action, CreateConsumer) else None


def condition(found: Iterable[Lowered]) -> tuple[Condition, ...]:
    """The condition that tells of lowered defaults; none where no default was lowered."""
    told = list(dict.fromkeys(map(str, found)))
    if not told:
        return ()
    return (Condition("OurDefaultsHold", False, "ServerLimits", "; ".join(told), informative=True),)


def _for_people(name: str, value: object) -> str:
    """A value of a configuration for people, who do not count in nanoseconds."""
    if isinstance(value, int) and name.lower().endswith(("window", "threshold")):
        return f"{value / 1e9:g}s"
    return str(value)


def _limit(words: str) -> int:
    """The number at the end of a refusal, as the configuration would have it; 0 for none."""
    match = _LIMIT.search(words)
    if match is None:
        return 0
    if match[1].isdigit():
        return int(match[1]) if len(match[1]) < 19 else 0
    try:
        span = duration.from_go(match[1], field="limit")
    except InvalidSpec:
        return 0
    return nanoseconds(span) if span > timedelta() else 0

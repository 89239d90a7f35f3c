"""How large an aside stream may become where the account demands a bound of every stream: a share of the channel's own.

An author knows of one stream, and sets its `maxBytes`. The aside stream takes its bound from that field, and follows
when the author changes it. In accounts without such a demand an aside stream has no bound. Pure; called by
`headrace.core.channel.plan` and by the part that carries its actions out.
"""

from __future__ import annotations

from headrace.core.nats.action import Action, CreateStream, Outcome, Rejected, UpdateStream
from headrace.core.nats.stream import PREFIX, ChannelStream
from headrace.core.raw_config import Config, merged

BOUND_KEY = f"{PREFIX}aside-bound"
"""Marks an aside stream whose bound we set."""
# The server's words (error 10113) where an account has max_bytes_required.
DEMANDED = "config to have max bytes set"
SHARE = 4
# Room for one event of any size that a server takes by default, with its record.
LEAST_BYTES = 2 * 1024 * 1024


def of_stream(max_bytes: int) -> int:
    """The bound beside a stream of so many bytes; 0 beside one without a bound."""
    return max(LEAST_BYTES, max_bytes // SHARE) if max_bytes > 0 else 0


def following(aside: Config, observed: Config | None, max_bytes: int) -> Config:
    """The wanted aside stream; if it was given a bound before, then with the bound that fits now.

    Args:
        observed: the aside stream as the server has it.
        max_bytes: of the channel's stream.
    """
    marked = BOUND_KEY in ((observed or {}).get("metadata") or {})
    return merged(aside, {"max_bytes": of_stream(max_bytes)}) if marked and max_bytes > 0 else aside


def demanded(action: Action, outcome: Outcome, place: ChannelStream, stream: Config | None) -> Action | None:
    """The same action with a bound, if the server has refused it for want of one; None for another reason.

    Args:
        stream: the channel's own stream, as the server has it.
    """
    if not (isinstance(outcome, Rejected) and DEMANDED in outcome.words):
        return None
    if not isinstance(action, CreateStream | UpdateStream) or action.config["name"] != place.aside:
        return None
    bound = of_stream(int((stream or {}).get("max_bytes") or 0))
    if not bound:
        return None
    config = merged(action.config, {"max_bytes": bound, "metadata": {BOUND_KEY: "share of maxBytes"}})
    return UpdateStream(config) if isinstance(action, UpdateStream) else CreateStream(config)

"""What becomes of a channel that NATS lets nobody into: its credentials are refused, or are gone with their Secret.

While the channel is wanted, its status says so. While it is being deleted, it waits a while for them to come back, and
then goes without: its stream stays behind in NATS, and an Event names it. A status condition keeps the time since when.
Pure: the time is an argument. Called by `headrace.reconcile`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from headrace.core.channel.hook import HookResponse, KubeEvent
from headrace.core.conditions import Condition, added, stamp
from headrace.core.nats.stream import ChannelStream
from headrace.core.plural import counted

CONDITION = "CredentialsAccepted"
REASON = "CredentialsRefused"
UNREACHED, UNREACHED_REASON = "ConnectionServed", "ReconcileUnreachable"
MOST_PATIENCE_AT_END = timedelta(seconds=20)
"""For a channel that goes with its namespace, where no Secret and no Deployment can be made any more."""
# A rotation of credentials mends it, and nothing tells us of one.
LOOK_AGAIN = timedelta(seconds=15)


def unreached(parent: Mapping[str, Any], words: str, now: datetime) -> dict[str, Any]:
    """The status of a channel whose own `reconcile` does not answer: while it starts, or for a moment."""
    before = parent.get("status")
    known = before if isinstance(before, dict) else {}
    addressed = bool(known.get("address"))
    condition = Condition(UNREACHED, False, UNREACHED_REASON, words, informative=addressed)
    body = added(known, condition, parent, now)
    if addressed:
        # The channel was Ready, and nothing says that it no longer is.
        return body
    return added(body, Condition("Ready", False, UNREACHED_REASON, words), parent, now)


def status(parent: Mapping[str, Any], words: str, now: datetime, reason: str = REASON) -> dict[str, Any]:
    """The status of a channel whose credentials NATS refuses; the rest is kept, since nothing was changed in NATS."""
    before = parent.get("status")
    conditions = (Condition(CONDITION, False, reason, words), Condition("Ready", False, reason, words))
    return {
        **(before if isinstance(before, dict) else {}),
        "conditions": stamp(conditions, parent, now),
    }


@dataclass(frozen=True, slots=True)
class Lockout:
    """NATS lets nobody in.

    Attributes:
        words: why.
        reason: the condition's.
        where: the owner of the credentials that would lead there, for people; empty for the installation's.
    """

    words: str
    reason: str = REASON
    where: str = ""


def leaving(
    parent: Mapping[str, Any],
    place: ChannelStream,
    lockout: Lockout,
    *,
    now: datetime,
    patience: timedelta,
    retained: bool,
) -> HookResponse:
    """The answer of finalize.

    Args:
        patience: how long to wait for the credentials, from the first answer that missed them.
        retained: the author wants to keep the streams: nothing is left behind against the author's will.
    """
    body = status(parent, lockout.words, now, lockout.reason)
    # The clock behind the condition may have been ahead of ours.
    left = patience - max(timedelta(), now - (_since(parent) or now))
    if left > timedelta():
        # A little after the exact moment: a clock that rounds down would cost one more round.
        wait = min(left, LOOK_AGAIN).total_seconds() + 0.1
        return HookResponse(body, resync_after_seconds=round(wait, 1), finalized=False)
    account = f", in the account of {lockout.where}," if lockout.where else ""
    message = (
        f"the streams {place.stream} and {place.aside}, if they exist, stay behind in NATS{account} with their "
        f"consumers and events: nobody was let in there for {_minutes(patience)} ({lockout.words}). Delete them there "
        "when nobody needs them"
    )
    event = KubeEvent("Warning", "StreamOrphaned", message)
    return HookResponse(body, finalized=True, events=() if retained else (event,))


def _since(parent: Mapping[str, Any]) -> datetime | None:
    status = parent.get("status")
    conditions = status.get("conditions") if isinstance(status, dict) else None
    for one in conditions if isinstance(conditions, list) else ():
        if isinstance(one, dict) and (one.get("type"), one.get("status")) == (CONDITION, "False"):
            try:
                moment = datetime.fromisoformat(str(one.get("lastTransitionTime")))
            except ValueError:
                return None
            return moment if moment.tzinfo else None
    return None


def _minutes(span: timedelta) -> str:
    minutes = round(span.total_seconds() / 60)
    if minutes == 0:
        return counted(round(span.total_seconds()), "second")
    return f"{minutes} minutes" if minutes != 1 else "a minute"

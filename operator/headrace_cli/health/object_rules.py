"""The rules about channel objects and their conditions, in a cluster or in the bulletin of a `headrace up`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from headrace_cli.health.finding import Finding, Severity, problem, risk

# For these conditions there are rules that ask NATS itself and know more.
ASKED_IN_NATS = {
    "AckWindowsOpen",
    "AsideStreamHasRoom",
    "NoEventsStuck",
    "NoEventsDiscarded",
    "PullsServed",
    "RetriesHeld",
    "StreamHasRoom",
    "EventsFit",
    "PositionsKept",
}
# These only follow from others: who mends those has mended them.
_FOLLOWS = {
    ("StreamReady", "NameRefused"): "NamesAllowed",
    ("ConsumersReady", "StreamNotReady"): "StreamReady",
    ("Addressable", "StreamNotReady"): "StreamReady",
    ("Addressable", "SubjectNotCaptured"): "StreamReady",
}
_MEND = "mend the manifest as the message says; what was there before goes on working where it can (docs/conditions.md)"


def of_objects(objects: Iterable[Mapping[str, Any]], *, nats_asked: bool) -> Iterator[Finding]:
    """The findings about objects that are not as their authors want them.

    Args:
        nats_asked: the rules that ask NATS are used, too.
    """
    for body in objects:
        metadata, status = body["metadata"], body.get("status") or {}
        where = f"{metadata.get('namespace')}/{metadata['name']}"
        if error := body.get("error"):
            do = "look at the log of who reconciles; it is tried again"
            yield problem("not-reconciled", f"reconciling it fails: {error}", do, where=where)
        elif not status.get("conditions"):
            do = "is the operator running, and does it watch this namespace? Its log says what holds it up"
            yield problem("not-reconciled", "nobody has reconciled it yet", do, where=where)
        elif status.get("observedGeneration", metadata.get("generation")) != metadata.get("generation"):
            what = "the newest edit is not taken up yet: the conditions are of the one before"
            yield risk("edit-waits", what, "wait a moment; if it stays so, look at the operator", where=where)
        yield from _conditions(where, status, nats_asked)
        yield from _subscribers(where, body, status)


def _conditions(where: str, status: Mapping[str, Any], nats_asked: bool) -> Iterator[Finding]:
    down = [each for each in status.get("conditions") or () if each.get("status") in ("False", "Unknown")]
    # Ready repeats the first of the other conditions.
    causes = [each for each in down if each.get("type") != "Ready"]
    if all(each.get("severity") for each in causes):
        causes = sorted(down, key=lambda each: str(each.get("type")))
    types = {each.get("type") for each in causes}
    for each in causes:
        if _FOLLOWS.get((each.get("type"), each.get("reason"))) in types:
            continue
        if nats_asked and each.get("type") in ASKED_IN_NATS:
            continue
        # A condition that is not known yet may be True in a moment.
        severity = Severity.RISK if each.get("severity") or each["status"] == "Unknown" else Severity.PROBLEM
        yield Finding(severity, "condition", in_words(each), _MEND, where=where)


def _subscribers(where: str, body: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[Finding]:
    conditions = status.get("conditions") or ()
    stream: Mapping[str, Any] = next((each for each in conditions if each.get("type") == "StreamReady"), {})
    names = {each.get("uid"): each.get("name") for each in (body.get("spec") or {}).get("subscribers") or ()}
    for each in status.get("subscribers") or ():
        who = names.get(each.get("uid")) or each.get("uid")
        if stream.get("status") == "False" and each.get("message") == stream.get("message"):
            # None is served, for want of the stream, which is told once.
            continue
        if each.get("ready") == "False":
            what = f"its subscriber {who} is not served: {each.get('message', '')}"
            do = "see to what it says: an entry is mended in its Subscription, a limit in NATS or in the channel's spec"
            yield problem("subscriber", what, do, where=where)
        elif each.get("ready") == "Unknown":
            what = f"whether its subscriber {who} is served is not known: {each.get('message', '')}"
            yield risk("subscriber", what, "wait a moment; if it stays so, see to what it says", where=where)


def in_words(condition: Mapping[str, Any]) -> str:
    """`StreamReady is False, StreamUpdateRefused: NATS refused …`."""
    reason = ": ".join(str(condition[key]) for key in ("reason", "message") if condition.get(key))
    return f"{condition.get('type')} is {condition.get('status')}" + (f", {reason}" if reason else "")

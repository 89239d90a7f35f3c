"""The tables of docs/metrics.md, made from the code: the metrics, the outcomes of events, and the keys of the log."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.core import metric_families as families
from headrace.core.delivery.lease import Outcome
from headrace.core.metrics import Family, FamilyKind
from headrace.io.process import log

PAGE = "metrics.md"
OUTCOMES = {
    Outcome.DELIVERED: "the subscriber has it, and the reply address has the reply",
    Outcome.RETRIED: "an attempt failed, and another one follows",
    Outcome.DEAD_LETTERED: "the dead letter sink has it",
    Outcome.PARKED: "delivered nowhere, kept aside",
    Outcome.REPLIED: "beside `delivered`: the answer was an event, and was delivered, too",
    Outcome.REDELIVERED: "beside another: it had been pulled before, so its subscriber may see it twice",
    Outcome.RETURNED: "given back untried, since the lease ended",
    Outcome.SKIPPED: "a replay that is for another Subscription alone",
    Outcome.POSTPONED: "given back until an earlier one of its key has gone",
    Outcome.STUCK: "neither delivered nor parked: no room aside, or too large for it",
    Outcome.UNSETTLED: "NATS went away in the middle: it comes again",
    Outcome.DISCARDED: "the server discarded it before its turn",
}


def contents() -> dict[tuple[str, str], str]:
    """By document and name of the place in it."""
    tables = {
        "functions": _metrics(families.EVERY),
        "receive": _metrics(families.RECEIVE),
        "forward": _metrics(families.FORWARD),
        "reconcile": _metrics(families.RECONCILE),
        "operator": _metrics(families.OPERATOR),
        "outcomes": _table(("outcome", "meaning"), ((f"`{outcome}`", OUTCOMES[outcome]) for outcome in Outcome)),
        "keys": _table(("key", "meaning"), ((f"`{key}`", meaning) for key, meaning in log.KEYS.items())),
    }
    return {(PAGE, name): table for name, table in tables.items()}


def _metrics(found: Iterable[Family]) -> str:
    rows = (
        (f"`{each.name}`", each.kind, ", ".join(f"`{label}`" for label in each.labels), _meaning(each))
        for each in found
    )
    return _table(("metric", "type", "labels", "meaning"), rows)


def _meaning(family: Family) -> str:
    if family.kind is not FamilyKind.HISTOGRAM:
        return family.words
    return f"{family.words}; in seconds, buckets {', '.join(f'{bound:g}' for bound in family.bounds)}"


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |".replace("  ", " ") for line in lines)

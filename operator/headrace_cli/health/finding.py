"""One thing that is wrong, as a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from headrace.core.quoting import plain


class Severity(IntEnum):
    """PROBLEM: events don't arrive, or soon won't. RISK: events arrive, but some are lost, or a failure is near.
    NOTE: somebody wants it so, and it may be why events don't arrive."""

    PROBLEM = 3
    RISK = 2
    NOTE = 1


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault that was found.

    Attributes:
        code: for scripts; does not change.
        where: the channel, Subscription or stream; a rule about one of them leaves it to its caller.
    """

    severity: Severity
    code: str
    what: str
    do: str
    where: str = ""


def problem(code: str, what: str, do: str, where: str = "") -> Finding:
    return Finding(Severity.PROBLEM, code, what, do, where)


def risk(code: str, what: str, do: str, where: str = "") -> Finding:
    return Finding(Severity.RISK, code, what, do, where)


def note(code: str, what: str, do: str, where: str = "") -> Finding:
    return Finding(Severity.NOTE, code, what, do, where)


def as_item(each: Finding) -> dict[str, str]:
    """As `-o json` prints it."""
    return {
        "severity": each.severity.name.lower(),
        "code": each.code,
        "where": each.where,
        "what": each.what,
        "do": each.do,
    }


def text(found: Sequence[Finding]) -> str:
    """Several findings, for people."""
    if not found:
        return "all is well: every Subscription gets its events\n"
    return "\n".join(
        f"{each.severity.name}  {plain(each.where)}  [{each.code}]\n  {plain(each.what)}\n  To do: {plain(each.do)}\n"
        for each in found
    )

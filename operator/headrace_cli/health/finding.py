"""One thing that is wrong, as a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from headrace_cli.view.output import plain


class Severity(IntEnum):
    """PROBLEM: events don't arrive, or will not soon. RISK: they do, and something is lost or about to go wrong.
    NOTE: as somebody wants it, and a reason why events don't arrive."""

    PROBLEM = 3
    RISK = 2
    NOTE = 1


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        code: for scripts; does not change.
        where: the channel, Subscription or stream; a rule about one of them leaves it to whoever asks the rule.
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
    """Several, for people."""
    if not found:
        return "all is well: every Subscription gets its events\n"
    return "\n".join(
        f"{each.severity.name}  {plain(each.where)}  [{each.code}]\n  {plain(each.what)}\n  To do: {plain(each.do)}\n"
        for each in found
    )

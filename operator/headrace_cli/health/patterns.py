"""What consumers see of a stream's subjects. Pure."""

from __future__ import annotations

from headrace_cli.catalog.subscriptions import Subscription


def filters(one: Subscription) -> list[str]:
    """The patterns of what a consumer sees; everything where it has no filter."""
    config = one.config
    single = config.get("filter_subject")
    return list(config.get("filter_subjects") or ([single] if single else [">"]))


def overlap(one: str, other: str) -> bool:
    """Is there a subject that both patterns match?"""
    a, b = one.split("."), other.split(".")
    for left, right in zip(a, b, strict=False):
        if ">" in (left, right):
            return True
        if left != right and "*" not in (left, right):
            return False
    return len(a) == len(b)

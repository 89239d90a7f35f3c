"""The names of a channel's functions in Kubernetes.

    headrace-<target>[-plain]               of a scope: several channels share it
    <target>[-plain]-<stem>-<16 hex>        of one channel, or of one subscriber of it

`plain` marks Deployments and their Services: a Knative Service makes a Service of its own name, so the two can't share
a name. The stem is for people; the digits tell apart functions whose stems are equal. A name has at most 51 characters,
that of a Knative Service 45: Knative makes `<name>-00001-deployment` of it, and nothing may be cut to the 63 characters
of a label. The first character is a letter, as Services demand it.
"""

from __future__ import annotations

import re
from hashlib import blake2b

_LONGEST_STEM = 20
_OTHER = re.compile(r"[^a-z0-9]+")


def shared(target: str, *, plain: bool) -> str:
    """The name of the function that the channels of a scope share."""
    return f"headrace-{target}{_kind(plain)}"


def own(target: str, identity: tuple[str, ...], stem: str, *, plain: bool) -> str:
    """The name of the function of one channel or subscriber.

    Args:
        identity: parts that no two functions have in common: the channel's namespace and name, a subscriber's consumer.
        stem: a name that people know.
    """
    told_apart = "".join(f"{len(part)}:{part}" for part in (target, _kind(plain), *identity))
    digits = blake2b(told_apart.encode(), digest_size=8).hexdigest()
    legible = _OTHER.sub("-", stem.lower())[:_LONGEST_STEM].strip("-")
    return "-".join(part for part in (f"{target}{_kind(plain)}", legible, digits) if part)


def _kind(plain: bool) -> str:
    return "-plain" if plain else ""

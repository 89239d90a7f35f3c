"""How much storage the channels of one namespace may reserve: `maxBytes` takes room from all others before any event.

An administrator bounds the sum over a namespace (ADR 061). A stream that has its room keeps it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from headrace.core.channel.plan import Observed, Problem
from headrace.core.channel.stream_config import WantedStreams
from headrace.core.installation.config_choice import DEFAULTS_NAME
from headrace.core.installation.function_bounds import number
from headrace.core.nats.stream import CLUSTER_KEY, NAMESPACE_KEY, ROLE_KEY, Ownership, Role, standing
from headrace.core.raw_config import Config

REASON = "StorageBeyondBound"
_FIELD = "spec.stream.config.maxBytes"


@dataclass(frozen=True, slots=True)
class StorageShare:
    """What is wanted within the bound.

    Attributes:
        problem: why it is not as the author wants it.
        stopped: there is no stream for the channel.
        beyond: what was kept although it is beyond the bound.
    """

    wanted: WantedStreams
    problem: Problem | None = None
    stopped: bool = False
    beyond: tuple[str, ...] = ()


def asks(wanted: WantedStreams, most: Mapping[str, str]) -> bool:
    """Does the bound concern the channel at all?"""
    return wanted.config["storage"] in most and _size(wanted.config) > 0


def judged(
    wanted: WantedStreams, observed: Observed, streams: Iterable[Config], most: Mapping[str, str]
) -> StorageShare:
    """What is wanted within the bound of the namespace.

    Args:
        streams: the configurations of all streams of the account.
        most: the bound by storage, as the administrator has written it.
    """
    owner, has = wanted.place.owner, observed.stream
    stands = standing(wanted.place, Role.CHANNEL, has)
    if not asks(wanted, most) or stands in (Ownership.ADOPTED, Ownership.FOREIGN):
        return StorageShare(wanted)
    storage, bound = wanted.config["storage"], most[wanted.config["storage"]]
    # What lies aside is bounded where the account demands it, by 2 MiB at least: many small channels reserve much.
    ours = {(owner.cluster, owner.namespace, role, storage) for role in (Role.CHANNEL, Role.ASIDE)}
    own = (wanted.place.stream, wanted.place.aside)
    others = sum(_size(one) for one in streams if one["name"] not in own and _whose(one) in ours)
    total = others + _size(wanted.config)
    if total <= number(bound):
        return StorageShare(wanted)
    replicas = int(wanted.config["num_replicas"])
    times = f" for each of {replicas} replicas" if replicas > 1 else ""
    sum_ = f"{_FIELD} is {wanted.config['max_bytes']}{times}, with which the channels of namespace {owner.namespace} "
    sum_ += f"reserve {total} bytes of {storage} storage, {others} of them others', and may reserve {bound}"
    opens = f"an administrator opens it: maxBytes: {{{storage}: {total}}} in key tenants of ConfigMap {DEFAULTS_NAME}"
    if has is not None and _size(wanted.config) <= _size(has):
        return StorageShare(wanted, beyond=(f"{sum_}; it is kept, since the stream has had that room before; {opens}",))
    problem = Problem(REASON, f"{sum_}: lower it, or {opens}")
    if has is None:
        return StorageShare(wanted, problem, stopped=True)
    kept = {key: has.get(key) for key in ("max_bytes", "num_replicas")}
    return StorageShare(replace(wanted, config={**wanted.config, **kept}), problem)


def _size(config: Config) -> int:
    return max(0, int(config.get("max_bytes") or 0)) * int(config.get("num_replicas") or 1)


def _whose(config: Config) -> tuple[str | None, ...]:
    mark = config.get("metadata") or {}
    return (*(mark.get(key) for key in (CLUSTER_KEY, NAMESPACE_KEY, ROLE_KEY)), config.get("storage"))

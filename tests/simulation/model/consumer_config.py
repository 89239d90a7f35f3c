"""The configuration of a consumer: the server's defaults, what it refuses, what it lets nobody change, and where a new
one begins."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from tests.simulation.model import blocks, refusals
from tests.simulation.model.messages import Messages
from tests.simulation.model.refusals import ApiFault, Unmodelled
from tests.simulation.model.stream_config import REQUIRED_LEVEL
from tests.simulation.model.subjects import is_valid, matches

if TYPE_CHECKING:
    from tests.simulation.model.consumer import Consumer
    from tests.simulation.model.stream import Stream

_SECOND = 1_000_000_000
_SHOWN: dict[str, Any] = {
    "deliver_policy": "all",
    "ack_policy": "none",
    "replay_policy": "instant",
    "num_replicas": 0,
    "max_deliver": -1,
    "max_waiting": 512,
}
_KEPT = (
    "durable_name",
    "name",
    "description",
    "opt_start_seq",
    "opt_start_time",
    "ack_wait",
    "filter_subject",
    "filter_subjects",
    "sample_freq",
    "max_ack_pending",
    "headers_only",
    "max_batch",
    "max_expires",
    "max_bytes",
    "inactive_threshold",
    "mem_storage",
    "pause_until",
    "priority_groups",
    "priority_policy",
    "priority_timeout",
)
_STARTS = ("all", "last", "new", "by_start_sequence", "by_start_time")
_FIXED = (
    ("deliver_policy", "deliver policy can not be updated"),
    ("mem_storage", "storage type can not be updated"),
    ("opt_start_seq", "start sequence can not be updated"),
    ("opt_start_time", "start time can not be updated"),
    ("ack_policy", "ack policy can not be updated"),
    ("replay_policy", "replay policy can not be updated"),
    ("max_waiting", "max waiting can not be updated"),
)
_ACK_WAIT = 30 * _SECOND
_PIN_TIMEOUT = 120 * _SECOND
_IDLE = 5 * _SECOND


def complete(asked: dict[str, Any], stream: dict[str, Any]) -> dict[str, Any]:
    """The configuration as the server keeps it.

    Raises:
        ApiFault: the server refuses it.
    """
    for key in asked.keys() - _SHOWN.keys() - set(_KEPT) - {"metadata"}:
        if asked[key]:
            raise Unmodelled(f"{key} of a consumer: {asked[key]!r}")
    config: dict[str, Any] = {key: asked.get(key) or default for key, default in _SHOWN.items()}
    config |= {key: asked[key] for key in _KEPT if asked.get(key)}
    if config.get("priority_policy") == "none":
        del config["priority_policy"]
    config["metadata"] = dict(asked.get("metadata") or {})
    limits = stream.get("consumer_limits", {})
    if config["ack_policy"] == "explicit":
        config.setdefault("ack_wait", _ACK_WAIT)
    if not config.get("max_ack_pending") and limits.get("max_ack_pending"):
        config["max_ack_pending"] = limits["max_ack_pending"]
    if not config.get("max_ack_pending") and config["ack_policy"] == "explicit":
        config["max_ack_pending"] = 1000
    if config.get("max_ack_pending", 0) < -1:
        config["max_ack_pending"] = -1
    if config.get("priority_policy") == "pinned_client":
        config.setdefault("priority_timeout", _PIN_TIMEOUT)
    if config["ack_policy"] == "none" and stream["retention"] == "workqueue":
        raise ApiFault(400, 10084, "consumer in pull mode requires explicit ack policy on workqueue stream")
    _check(config, limits)
    if not config.get("durable_name") and not config.get("inactive_threshold"):
        config["inactive_threshold"] = _IDLE
    if config.get("opt_start_time"):
        config["opt_start_time"] = blocks.moment(blocks.from_moment(config["opt_start_time"]))
    return deepcopy(marked(config))


def marked(config: dict[str, Any]) -> dict[str, Any]:
    """With the server's own mark in the metadata: the API level that it needs."""
    needs = bool(config.get("pause_until") or config.get("priority_policy") or config.get("priority_groups"))
    own = {key: value for key, value in config["metadata"].items() if key not in ("_nats.ver", "_nats.level")}
    return {**config, "metadata": {**own, REQUIRED_LEVEL: "1" if needs else "0"}}


def check_new(config: dict[str, Any], stream: Stream) -> None:
    """Raises:
    ApiFault: the stream takes no such consumer.
    """
    most = stream.config["max_consumers"]
    if 0 < most <= len(stream.consumers):
        raise ApiFault(400, 10026, "maximum consumers limit reached")
    if stream.config["retention"] != "workqueue":
        return
    if config["deliver_policy"] != "all":
        raise ApiFault(400, 10101, "consumer must be deliver all on workqueue stream")
    _check_partition(config, stream, "")


def check_change(old: dict[str, Any], new: dict[str, Any], consumer: Consumer) -> None:
    """Raises:
    ApiFault: a consumer can't change so.
    Unmodelled: its filters are taken away. The server goes deaf for it then (2.15.1): it counts and signals nothing
        new until it starts again. A filter of `>` is heard.
    """
    if consumer.filters and not (new.get("filter_subject") or new.get("filter_subjects")):
        raise Unmodelled("to take a consumer's filters away")
    if consumer.stream.config["retention"] == "workqueue":
        _check_partition(new, consumer.stream, consumer.name)
    for key, words in _FIXED:
        if old.get(key) != new.get(key):
            raise refusals.consumer_create(words)


def first_sequence(config: dict[str, Any], kept: Messages) -> int:
    """Where a new consumer begins."""
    filters = config.get("filter_subjects") or ([config["filter_subject"]] if config.get("filter_subject") else [])
    policy = config["deliver_policy"]
    if policy == "by_start_sequence":
        first = config["opt_start_seq"]
        return int(max(first, kept.first))
    if policy == "all":
        first = kept.first
    elif policy == "last":
        first = max((kept.last_of(one) for one in filters), default=0) if filters else kept.last
    elif policy == "by_start_time":
        first = kept.since(blocks.from_moment(config["opt_start_time"]))
    else:
        first = kept.last + 1
    if kept.first == 0:
        return 1
    return max(min(first, kept.last + 1), kept.first)


def _check(config: dict[str, Any], limits: dict[str, Any]) -> None:
    policy, start = config["deliver_policy"], config.get("opt_start_seq") or config.get("opt_start_time")
    if policy not in _STARTS or config["replay_policy"] != "instant" or config["max_deliver"] > 0:
        raise Unmodelled(f"a consumer of {policy}, {config['replay_policy']}, max_deliver {config['max_deliver']}")
    if config["ack_policy"] not in ("none", "explicit"):
        raise Unmodelled(f"ack_policy of a consumer: {config['ack_policy']!r}")
    if 0 < limits.get("max_ack_pending", 0) < config.get("max_ack_pending", 0):
        most = limits["max_ack_pending"]
        raise ApiFault(400, 10121, f"consumer max ack pending exceeds system limit of {most}")
    single, several = config.get("filter_subject"), config.get("filter_subjects", [])
    if single and several:
        raise ApiFault(400, 10136, "consumer cannot have both FilterSubject and FilterSubjects specified")
    if "" in several:
        raise ApiFault(400, 10139, "consumer filter in FilterSubjects cannot be empty")
    filters = several or ([single] if single else [])
    if not all(is_valid(one) for one in filters):
        raise refusals.stream_config("invalid subject")
    if any(matches(a, b) for i, a in enumerate(filters) for j, b in enumerate(filters) if i != j):
        raise ApiFault(400, 10138, "consumer subject filters cannot overlap")
    if bool(start) != policy.startswith("by_start"):
        raise _bad_start(policy, config)
    if 0 < config.get("max_expires", 0) < 1_000_000:
        raise ApiFault(400, 10115, "consumer max request expires needs to be >= 1ms")
    _check_priority(config)


def _bad_start(policy: str, config: dict[str, Any]) -> ApiFault:
    kind = policy.replace("_", " ")
    if policy.startswith("by_start"):
        part = "start sequence" if policy.endswith("sequence") else "start time"
        return ApiFault(400, 10094, f"consumer delivery policy is deliver {kind}, but optional {part} is not set")
    part = "sequence" if config.get("opt_start_seq") else "time"
    return ApiFault(400, 10094, f"consumer delivery policy is deliver {kind}, but optional start {part} is also set")


def _check_priority(config: dict[str, Any]) -> None:
    policy, groups = config.get("priority_policy"), config.get("priority_groups")
    if policy not in (None, "pinned_client"):
        raise Unmodelled(f"priority_policy of a consumer: {policy!r}")
    if policy and not groups:
        raise ApiFault(400, 10159, "Setting PriorityPolicy requires at least one PriorityGroup to be set")
    if not policy and groups:
        raise ApiFault(400, 10196, "consumer can not have priority groups when policy is none")
    if not policy and config.get("priority_timeout"):
        raise ApiFault(400, 10197, "PinnedTTL cannot be set when PriorityPolicy is none")


def _check_partition(config: dict[str, Any], stream: Stream, name: str) -> None:
    """Each message of a work queue is for one consumer alone."""
    others = [one for one in stream.consumers.values() if one.name != name]
    if not others:
        return
    single = config.get("filter_subject")
    filters = config.get("filter_subjects") or ([single] if single else [])
    if not filters and not name:
        raise ApiFault(400, 10099, "multiple non-filtered consumers not allowed on workqueue stream")
    taken = [subject for one in others for subject in (one.filters or [">"])]
    if any(matches(a, b) or matches(b, a) for a in filters or [">"] for b in taken):
        raise ApiFault(400, 10100, "filtered consumer not unique on workqueue stream")

"""The configuration of a stream: the server's defaults, what it refuses, and what it lets nobody change."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from tests.simulation.model import refusals
from tests.simulation.model.refusals import ApiFault, Unmodelled
from tests.simulation.model.subjects import is_valid

_SECOND = 1_000_000_000
_WINDOW = 120 * _SECOND
_SHORTEST = 100_000_000
# By key: the value of one who says nothing. The server writes these out, even when they are its zero.
_SHOWN: dict[str, Any] = {
    "name": "",
    "retention": "limits",
    "max_consumers": -1,
    "max_msgs": -1,
    "max_bytes": -1,
    "max_age": 0,
    "max_msgs_per_subject": -1,
    "max_msg_size": -1,
    "discard": "old",
    "storage": "file",
    "num_replicas": 1,
    "compression": "none",
    "allow_direct": False,
    "mirror_direct": False,
    "sealed": False,
    "deny_delete": False,
    "deny_purge": False,
    "allow_rollup_hdrs": False,
    "consumer_limits": {},
    "allow_msg_ttl": False,
}
# It leaves these out when they are zero.
_KEPT = ("description", "no_ack", "duplicate_window", "first_seq", "discard_new_per_subject")
_UNLIMITED = ("max_consumers", "max_msgs", "max_bytes", "max_msgs_per_subject", "max_msg_size")
_CHOICES = {
    "retention": ("limits", "interest", "workqueue"),
    "discard": ("old", "new"),
    "storage": ("file", "memory"),
    "compression": ("none", "s2"),
}
# Taken only in the form that means nothing.
_IDLE = ("mirror", "sources", "subject_transform", "republish", "placement", "template_owner")
REQUIRED_LEVEL = "_nats.req.level"
_DYNAMIC = ("_nats.ver", "_nats.level")


def complete(asked: dict[str, Any]) -> dict[str, Any]:
    """The configuration as the server keeps it.

    Raises:
        ApiFault: the server refuses it.
    """
    for key in asked.keys() - _SHOWN.keys() - set(_KEPT) - set(_IDLE) - {"subjects", "metadata"}:
        if asked[key]:
            raise Unmodelled(f"{key} of a stream: {asked[key]!r}")
    for key in _IDLE:
        if asked.get(key):
            raise Unmodelled(f"{key} of a stream: {asked[key]!r}")
    config: dict[str, Any] = {key: asked.get(key) or default for key, default in _SHOWN.items()}
    # A copy of all that is nested: what a client has sent is nobody's to share.
    config["consumer_limits"] = {key: value for key, value in dict(config["consumer_limits"]).items() if value}
    config["subjects"] = list(asked.get("subjects") or [asked["name"]])
    config |= {key: asked[key] for key in _KEPT if asked.get(key)}
    for key in _UNLIMITED:
        config[key] = max(-1, config[key]) or -1
    _check(config)
    if not config.get("duplicate_window"):
        config["duplicate_window"] = min(config["max_age"] or _WINDOW, _WINDOW)
    _check_window(config)
    metadata = {key: value for key, value in (asked.get("metadata") or {}).items() if key not in _DYNAMIC}
    config["metadata"] = {**metadata, REQUIRED_LEVEL: "0"}
    return deepcopy(config)


def changed(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The new configuration, if the server lets a stream change so.

    Raises:
        ApiFault: it does not.
    """
    words = ""
    if new["storage"] != old["storage"]:
        words = "stream configuration update can not change storage type"
    elif new["retention"] != old["retention"] and "workqueue" in (new["retention"], old["retention"]):
        words = "stream configuration update can not change retention policy to/from workqueue"
    elif old["sealed"] and not new["sealed"]:
        words = "stream configuration update can not unseal a sealed stream"
    elif old["deny_delete"] and not new["deny_delete"]:
        words = "stream configuration update can not cancel deny message deletes"
    elif old["deny_purge"] and not new["deny_purge"]:
        words = "stream configuration update can not cancel deny purge"
    if words:
        raise refusals.stream_config(words)
    if new["retention"] != old["retention"]:
        raise Unmodelled("another retention of a stream that exists")
    if new["sealed"]:
        new = {**new, "max_age": 0, "discard": "new", "deny_delete": True, "deny_purge": True}
        new["allow_rollup_hdrs"] = False
    return new


def _check(config: dict[str, Any]) -> None:
    name = config["name"]
    if not name or set(name) & set(".*>\\/ \t\r\n\f"):
        words = "stream name is required and can not contain '.', '*', '>', '\\', '/'"
        raise refusals.stream_config(words)
    for key, choices in _CHOICES.items():
        if config[key] not in choices:
            raise Unmodelled(f"{key} of a stream: {config[key]!r}")
    if config["num_replicas"] > 1:
        raise ApiFault(500, 10074, "replicas > 1 not supported in non-clustered mode")
    if config["max_age"] < 0:
        raise refusals.stream_config("max age can not be negative")
    if 0 < config["max_age"] < _SHORTEST:
        raise refusals.stream_config("max age needs to be >= 100ms")
    if config["deny_purge"] and config["allow_rollup_hdrs"]:
        raise refusals.stream_config("roll-ups require the purge permission")
    if config.get("discard_new_per_subject"):
        if config["discard"] != "new":
            raise refusals.stream_config("discard new per subject requires discard new policy to be set")
        if config["max_msgs_per_subject"] <= 0:
            raise refusals.stream_config("discard new per subject requires max msgs per subject > 0")
    for subject in config["subjects"]:
        if not is_valid(subject):
            raise refusals.stream_config("invalid subject")
        if subject.startswith("$JS") or subject in (">", "*"):
            raise Unmodelled(f"a stream of {subject}")
    for key in ("allow_msg_ttl", "allow_rollup_hdrs"):
        if config[key]:
            raise Unmodelled(f"{key} of a stream")


def _check_window(config: dict[str, Any]) -> None:
    if config["duplicate_window"] < 0:
        raise refusals.stream_config("duplicates window can not be negative")
    if config["max_age"] and config["duplicate_window"] > config["max_age"]:
        raise refusals.stream_config("duplicates window can not be larger then max age")
    if config["duplicate_window"] < _SHORTEST:
        raise refusals.stream_config("duplicates window needs to be >= 100ms")

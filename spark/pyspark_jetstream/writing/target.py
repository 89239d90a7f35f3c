"""The stream that is written to, as its server knows it; each task asks for it once."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.errors import Misconfigured
from headrace.core.nats.jetstream import HEADROOM_BYTES
from headrace.core.nats.stored_message import nanoseconds
from pyspark_jetstream.client import BlockingApi
from pyspark_jetstream.writing.options import WriteOptions

# Spark is back a minute or two after a crash of its driver; the server's own default is as long.
PLAUSIBLE_RESTART_SECONDS = 120.0
_NANOSECONDS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Target:
    """Attributes:
    last: the stream's last sequence at this moment.
    now_ns: the server's clock, nanoseconds since the epoch.
    window_seconds: how long the server remembers ids.
    allows_fast: whether it takes fast ingest.
    most_bytes: the stream's limit for one message, headers included; zero for no limit.
    """

    stream: str
    created: str
    last: int
    now_ns: int
    window_seconds: float
    allows_fast: bool
    most_bytes: int
    retention: str
    replicas: int


def find(jetstream: BlockingApi, subject: str) -> Target:
    """The stream that captures a subject.

    Raises:
        Misconfigured: none does.
    """
    found = jetstream.streams_of(subject)
    if not found:
        raise Misconfigured(
            f"no stream captures the subject {subject!r}: check the name, and that the channel is ready",
            field="subject",
        )
    return look_up(jetstream, found[0])


def look_up(jetstream: BlockingApi, stream: str) -> Target:
    said = jetstream.call(f"STREAM.INFO.{stream}")
    config, state = said["config"], said["state"]
    return Target(
        stream=stream,
        created=str(said["created"]),
        last=int(state["last_seq"]),
        now_ns=nanoseconds(str(said["ts"])) if "ts" in said else 0,
        window_seconds=int(config.get("duplicate_window", 0)) / _NANOSECONDS,
        allows_fast=bool(config.get("allow_batched")),
        most_bytes=max(int(config.get("max_msg_size", -1)), 0),
        retention=str(config.get("retention", "limits")),
        replicas=int(config.get("num_replicas", 1)),
    )


def most_bytes(options: WriteOptions, max_payload: int, target: Target | None) -> int:
    """The size of the largest message that may be written; in a channel it must still fit when it is parked."""
    most = max_payload - HEADROOM_BYTES if options.is_channel else max_payload
    return min(most, target.most_bytes) if target is not None and target.most_bytes else most


def check_retention(target: Target) -> None:
    """Raises:
    Misconfigured: the stream drops messages that prove what was stored.
    """
    if target.retention != "limits":
        raise Misconfigured(
            f"commitMarker can't work on stream {target.stream}: with {target.retention} retention, messages vanish "
            "that tell what was stored; leave it out",
            field="commitMarker",
        )


def short_window(stream: str, window_seconds: float) -> str:
    """The warning about a stream that forgets ids before a job is back; empty when there is none."""
    if window_seconds >= PLAUSIBLE_RESTART_SECONDS:
        return ""
    return (
        f"stream {stream} remembers message ids for {window_seconds:g} s only: what is written again after a restart "
        f"that takes longer is stored twice. Set its duplicate window to {PLAUSIBLE_RESTART_SECONDS:g} s or more, or "
        "the option commitMarker to true"
    )

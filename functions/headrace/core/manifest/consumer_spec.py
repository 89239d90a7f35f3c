"""The consumers of a channel's subscribers as its author wrote them: the proposal's fields, the Go channel's, NATS'.

Many of NATS' settings would break a channel's promises here, and are refused with the reason. Some fields that the Go
channel obeys have no meaning for leases: they are read and never obeyed (ADR 011).
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from headrace.core.delivery.subscriber import LARGEST
from headrace.core.manifest.field_types import GoSpan, Labels, Limit32, Moment, Percentage, Sequence, Subject, Subjects
from headrace.core.manifest.part import Part, Rule

_SEQUENCE = "(has(self.optStartSeq) && !string(self.optStartSeq).matches('^0*$'))"
_TIME = "(has(self.optStartTime) && self.optStartTime != '')"


def _refused(name: str, attribute: str, says: str, *, text: bool = False) -> Rule:
    """A field that nobody may set; `text` may be there and empty."""
    absent = f"!has(self.{name}) || self.{name} == ''" if text else f"!has(self.{name})"
    return Rule(name, absent, lambda own: getattr(own, attribute) is None, f"{says}: take it out")


def _needs(policy: str, name: str, cel: str, attribute: str) -> Rule:
    return Rule(
        name,
        f"self.deliverPolicy != '{policy}' || {cel}",
        lambda own: own.deliver_policy != policy or bool(getattr(own, attribute)),
        f"deliverPolicy {policy} needs it: give it",
    )


def _only_for(policy: str, name: str, cel: str, attribute: str) -> Rule:
    return Rule(
        name,
        f"self.deliverPolicy == '{policy}' || !{cel}",
        lambda own: own.deliver_policy == policy or not getattr(own, attribute),
        f"only deliverPolicy {policy} has a use for it: take it out",
    )


class ConsumerTemplate(Part):
    """The settings of every subscriber's consumer.
    A change of deliverPolicy, optStartSeq, optStartTime and replayPolicy holds for new subscribers only.
    """

    deliver_policy: Literal["All", "Last", "New", "ByStartSequence", "ByStartTime"] = "All"
    """Which events of the stream a new subscriber gets."""
    opt_start_seq: Sequence = 0
    """With deliverPolicy ByStartSequence: the sequence to start at, as a number or as text."""
    opt_start_time: Moment | None = None
    """With deliverPolicy ByStartTime: the time to start at, RFC 3339."""
    ack_wait: GoSpan | None = None
    """Accepted and not obeyed: Headrace's own acknowledgement wait is 8s, and delivery.timeout is exact."""
    max_deliver: int | None = None
    """Accepted and not obeyed: how often an event is tried is delivery.retry's alone."""
    filter_subject: Subject = ""
    """Deliver only events that were published on this subject."""
    filter_subjects: Subjects = ()
    """Deliver only events that were published on these subjects."""
    replay_policy: Literal["Instant", "Original"] = "Instant"
    """Deliver stored events at once, or at the pace at which they came."""
    rate_limit_bps: int = Field(0, ge=0, le=LARGEST, alias="rateLimitBPS")
    """Bits per second that a subscriber gets at most, over all its leases; 0: no limit."""
    rate_limit_as_proposed: int = Field(0, ge=0, le=LARGEST, alias="rateLimitBps")
    """The same as rateLimitBPS, as the proposal spells it."""
    sample_frequency: Percentage = ""
    """How many of the acknowledgements NATS reports in its metrics: 0 to 100, like 30 or 30%."""
    max_ack_pending: Limit32 = 0
    """How many events of a subscriber may be unsettled, those that wait for a retry included. 10000 when not given."""
    consumer_type: Literal["Push", "Pull"] | None = None
    """Accepted and not obeyed: Headrace pulls."""
    fetch_max_wait: GoSpan | None = None
    """Accepted and not obeyed: a lease has one pull open at a time, for as long as it lingers."""
    fetch_batch_size: int | None = Field(None, ge=1, le=2**31 - 1)
    """Accepted and not obeyed: Headrace asks for what the subscriber can take at once."""
    idle_heartbeat: GoSpan | None = None
    """Accepted and not obeyed: a pull that the server has not ended a second after its time is sent anew."""
    replicas: int = Field(0, ge=0, le=5)
    """How many servers hold a consumer's state; 0: as many as hold the stream."""
    metadata: Labels = {}
    """Further metadata of the consumers; headrace.dev/ and _nats are taken."""
    headers_only: bool | None = None
    """Refused: events would lose their data."""
    backoff: Annotated[tuple[str, ...], Field(strict=False, max_length=64)] | None = None
    """Refused: delivery.backoffDelay and backoffPolicy say it."""
    max_waiting: int | None = Field(None, ge=-1, le=2**31 - 1)
    """Refused: Headrace bounds its own pulls."""
    max_request_batch: int | None = Field(None, ge=-1, le=2**31 - 1)
    """Refused: Headrace bounds its own pulls."""
    max_request_expires: GoSpan | None = None
    """Refused: Headrace bounds its own pulls."""
    max_request_max_bytes: int | None = Field(None, ge=-1, le=2**31 - 1)
    """Refused: Headrace bounds its own pulls."""
    inactive_threshold: GoSpan | None = None
    """Refused: the consumer would be deleted while it idles, and its events be lost to the subscriber."""
    mem_storage: bool | None = None
    """Refused: the consumer would forget what it has delivered."""
    pause_until: Moment | None = None
    """Refused: NATS takes it by a request of its own."""
    priority_policy: str | None = None
    """Refused: the annotation headrace.dev/delivery-order says it."""
    priority_groups: Annotated[tuple[str, ...], Field(strict=False, max_length=64)] | None = None
    """Refused: the annotation headrace.dev/delivery-order says it."""

    rules: ClassVar[tuple[Rule, ...]] = (
        _needs("ByStartSequence", "optStartSeq", _SEQUENCE, "opt_start_seq"),
        _needs("ByStartTime", "optStartTime", _TIME, "opt_start_time"),
        _only_for("ByStartSequence", "optStartSeq", _SEQUENCE, "opt_start_seq"),
        _only_for("ByStartTime", "optStartTime", _TIME, "opt_start_time"),
        Rule(
            "filterSubjects",
            "!has(self.filterSubject) || self.filterSubject == ''"
            " || !has(self.filterSubjects) || size(self.filterSubjects) == 0",
            lambda own: not (own.filter_subject and own.filter_subjects),
            "it excludes filterSubject: write all subjects into one of the two",
        ),
        Rule(
            "rateLimitBps",
            "!has(self.rateLimitBps) || self.rateLimitBps == 0 || !has(self.rateLimitBPS) || self.rateLimitBPS == 0",
            lambda own: not (own.rate_limit_bps and own.rate_limit_as_proposed),
            "it is rateLimitBPS in another spelling: keep one of the two",
        ),
        _refused("headersOnly", "headers_only", "subscribers get events with their data"),
        _refused("backoff", "backoff", "retries are spec.delivery's, with backoffDelay and backoffPolicy"),
        _refused("maxWaiting", "max_waiting", "Headrace bounds its own pulls"),
        _refused("maxRequestBatch", "max_request_batch", "Headrace bounds its own pulls"),
        _refused("maxRequestExpires", "max_request_expires", "Headrace bounds its own pulls", text=True),
        _refused("maxRequestMaxBytes", "max_request_max_bytes", "Headrace bounds its own pulls"),
        _refused(
            "inactiveThreshold", "inactive_threshold", "a subscriber's consumer must not go while it idles", text=True
        ),
        _refused("memStorage", "mem_storage", "a subscriber's position must outlive the server"),
        _refused("pauseUntil", "pause_until", "pause a consumer with `nats consumer pause`", text=True),
        _refused(
            "priorityPolicy", "priority_policy", "order is the annotation headrace.dev/delivery-order's", text=True
        ),
        _refused("priorityGroups", "priority_groups", "order is the annotation headrace.dev/delivery-order's"),
    )

    @property
    def bits_per_second(self) -> int:
        """The limit in whichever spelling; 0 for none."""
        return self.rate_limit_bps or self.rate_limit_as_proposed

    @property
    def subjects(self) -> tuple[str, ...]:
        """What subscribers are to see of the stream; empty for what the channel's own subjects are."""
        return (self.filter_subject,) if self.filter_subject else self.filter_subjects

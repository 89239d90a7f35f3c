"""Every metric that a part of Headrace exposes: names, types, labels, meaning.

`docs/metrics.md` is generated from here, and dashboards and alerts are held to what a real run exposes of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.metrics import KNATIVE_BOUNDS, LONG_BOUNDS, SHORT_BOUNDS, Family, Fold, Kind

CHANNEL = ("namespace", "channel")
SUBSCRIPTION = ("namespace", "channel", "subscription")

# Of every function.

REQUESTS = Family(
    "headrace_requests_total",
    Kind.COUNTER,
    "Requests by the status that they were answered with, refusals of the server included, probes not",
    ("function", "code"),
)
STARTED = Family(
    "headrace_start_seconds",
    Kind.GAUGE,
    "From the start of the process until it listened (serving), first found NATS (ready), and had given its first "
    "answer to a request that is no probe (answer); of several workers, of the first",
    ("function", "until"),
    fold=Fold.LEAST,
)
WORKERS = Family("headrace_workers", Kind.GAUGE, "Processes that serve, and are added up here", ("function",))
NATS_CONNECTED = Family(
    "headrace_nats_connected", Kind.GAUGE, "Connections to NATS that stand: one for each process", ("function",)
)
NATS_DISCONNECTS = Family(
    "headrace_nats_disconnects_total",
    Kind.COUNTER,
    "Connections to NATS that broke, or were replaced as the server had asked for",
    ("function",),
)
CPU_SECONDS = Family("process_cpu_seconds_total", Kind.COUNTER, "CPU time, user and system, in seconds")
MEMORY_BYTES = Family("process_resident_memory_bytes", Kind.GAUGE, "Memory that is held, in bytes")
START_TIME = Family(
    "process_start_time_seconds", Kind.GAUGE, "When the process started, seconds since the epoch", fold=Fold.LEAST
)

# Of `receive`.

STORED = Family(
    "headrace_receive_stored_events_total",
    Kind.COUNTER,
    "Events that JetStream has acknowledged, duplicates included",
    CHANNEL,
)
DUPLICATES = Family(
    "headrace_receive_duplicate_events_total",
    Kind.COUNTER,
    "Those of them that the stream had already: same source and id within its duplicate window",
    CHANNEL,
)
STORE_SECONDS = Family(
    "headrace_receive_store_duration_seconds",
    Kind.HISTOGRAM,
    "From an event that is here, whole, to JetStream's acknowledgement",
    bounds=SHORT_BOUNDS,
)
WAITING_BYTES = Family(
    "headrace_receive_waiting_bytes",
    Kind.GAUGE,
    "Bytes held for events on their way in, or not acknowledged yet; RECEIVE_MAX_WAITING_BYTES bounds them",
)

# Of `forward`.

DISPATCH_SECONDS = Family(
    "kn_eventing_dispatch_duration_seconds",
    Kind.HISTOGRAM,
    "POSTs to subscribers, as Knative's own dispatchers tell of them; 500 also stands for no answer",
    (
        "kn_channel_namespace",
        "kn_channel_name",
        "kn_subscription_name",
        "messaging_system",
        "http_response_status_code",
    ),
    bounds=KNATIVE_BOUNDS,
)
ONWARD_SECONDS = Family(
    "headrace_forward_onward_duration_seconds",
    Kind.HISTOGRAM,
    "POSTs to reply addresses (stage reply) and dead letter sinks (stage dead_letter); 500 also stands for no answer",
    (*SUBSCRIPTION, "stage", "code"),
    bounds=KNATIVE_BOUNDS,
)
NO_ANSWERS = Family(
    "headrace_forward_no_answers_total",
    Kind.COUNTER,
    "POSTs of any stage that nobody answered: refused, reset, cut off, or out of time",
    SUBSCRIPTION,
)
FORWARDED = Family(
    "headrace_forward_events_total",
    Kind.COUNTER,
    "Events by how they left the hands of this process; what all processes have done is headrace_events_total",
    (*SUBSCRIPTION, "outcome"),
)
LEASES_OPEN = Family("headrace_forward_leases_open", Kind.GAUGE, "Leases that this process serves now")
LEASE_SECONDS = Family(
    "headrace_forward_lease_duration_seconds",
    Kind.HISTOGRAM,
    "How long leases were served, the last answer of a subscriber included",
    bounds=LONG_BOUNDS,
)
IN_FLIGHT = Family("headrace_forward_in_flight_events", Kind.GAUGE, "Events in subscribers' hands, or being settled")
IN_FLIGHT_BYTES = Family(
    "headrace_forward_in_flight_bytes",
    Kind.GAUGE,
    "Bytes of events that leases hold or have asked for; FORWARD_MAX_PROCESS_BYTES bounds them",
)

# Of `reconcile`.

RECONCILE_SECONDS = Family(
    "headrace_reconcile_duration_seconds",
    Kind.HISTOGRAM,
    "Calls of the hooks, by verb and by the status that they were answered with",
    ("verb", "code"),
    bounds=LONG_BOUNDS,
)

EVERY = (
    REQUESTS,
    STARTED,
    WORKERS,
    NATS_CONNECTED,
    NATS_DISCONNECTS,
    CPU_SECONDS,
    MEMORY_BYTES,
    START_TIME,
)
RECEIVE = (STORED, DUPLICATES, STORE_SECONDS, WAITING_BYTES)
FORWARD = (
    DISPATCH_SECONDS,
    ONWARD_SECONDS,
    NO_ANSWERS,
    FORWARDED,
    LEASES_OPEN,
    LEASE_SECONDS,
    IN_FLIGHT,
    IN_FLIGHT_BYTES,
)
RECONCILE = (RECONCILE_SECONDS,)
FUNCTIONS = (*EVERY, *RECEIVE, *FORWARD, *RECONCILE)
BY_NAME: Mapping[str, Family] = {family.name: family for family in FUNCTIONS}

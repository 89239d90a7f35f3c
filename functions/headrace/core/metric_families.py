"""Every metric that a part of Headrace exposes: names, types, labels, meaning.

`docs/metrics.md` is generated from here, and tests hold dashboards and alerts to the metrics that a real run exposes.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.metrics import KNATIVE_BOUNDS, LONG_BOUNDS, SHORT_BOUNDS, Family, FamilyKind, Fold

CHANNEL = ("namespace", "channel")
SUBSCRIPTION = ("namespace", "channel", "subscription")

# Of every function.

REQUESTS = Family(
    "headrace_requests_total",
    FamilyKind.COUNTER,
    "Requests by the status that they were answered with, refusals of the server included, probes not",
    ("function", "code"),
)
STARTED = Family(
    "headrace_start_seconds",
    FamilyKind.GAUGE,
    "From the start of the process until it listened (serving), first found NATS (ready), and had given its first "
    "answer to a request that is no probe (answer)",
    ("function", "until"),
    fold=Fold.LEAST,
)
WORKERS = Family("headrace_workers", FamilyKind.GAUGE, "1 of each process that serves", ("function",))
NATS_CONNECTED = Family(
    "headrace_nats_connected", FamilyKind.GAUGE, "Connections to NATS that stand: one for each process", ("function",)
)
NATS_DISCONNECTS = Family(
    "headrace_nats_disconnects_total",
    FamilyKind.COUNTER,
    "Connections to NATS that broke, or were replaced as the server had asked for",
    ("function",),
)
CONNECTIONS = Family(
    "headrace_connections",
    FamilyKind.GAUGE,
    "Connections of clients that are open; HEADRACE_MAX_CONNECTIONS bounds them",
    ("function",),
)
CLOSED = Family(
    "headrace_connections_closed_total",
    FamilyKind.COUNTER,
    "Connections of clients that were closed for their idling (idle), for never having sent a request (silent), "
    "since a request was not complete in time (late), since answers were not read (unread), or to make room (crowded)",
    ("function", "reason"),
)
HELD_BYTES = Family(
    "headrace_request_bytes",
    FamilyKind.GAUGE,
    "Bytes held for requests on their way in; those of receive are in headrace_receive_waiting_bytes",
    ("function",),
)
CPU_SECONDS = Family("process_cpu_seconds_total", FamilyKind.COUNTER, "CPU time, user and system, in seconds")
MEMORY_BYTES = Family("process_resident_memory_bytes", FamilyKind.GAUGE, "Memory that is held, in bytes")
START_TIME = Family(
    "process_start_time_seconds", FamilyKind.GAUGE, "When the process started, seconds since the epoch", fold=Fold.LEAST
)

# Of `receive`.

STORED = Family(
    "headrace_receive_stored_events_total",
    FamilyKind.COUNTER,
    "Events that JetStream has acknowledged, duplicates included",
    CHANNEL,
)
DUPLICATES = Family(
    "headrace_receive_duplicate_events_total",
    FamilyKind.COUNTER,
    "Stored events that the stream had already: same source and id, or the same delivery, within its duplicate window",
    CHANNEL,
)
STORE_SECONDS = Family(
    "headrace_receive_store_duration_seconds",
    FamilyKind.HISTOGRAM,
    "From the arrival of a whole event to JetStream's acknowledgement",
    bounds=SHORT_BOUNDS,
)
WAITING_BYTES = Family(
    "headrace_receive_waiting_bytes",
    FamilyKind.GAUGE,
    "Bytes held for events on their way in, or not acknowledged yet; RECEIVE_MAX_WAITING_BYTES bounds them",
)

# Of `forward`.

DISPATCH_SECONDS = Family(
    "kn_eventing_dispatch_duration_seconds",
    FamilyKind.HISTOGRAM,
    "POSTs to subscribers, as Knative's own dispatchers measure them; 500 also stands for no answer",
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
    FamilyKind.HISTOGRAM,
    "POSTs to reply addresses (stage reply) and dead letter sinks (stage dead_letter); 500 also stands for no answer",
    (*SUBSCRIPTION, "stage", "code"),
    bounds=KNATIVE_BOUNDS,
)
NO_ANSWERS = Family(
    "headrace_forward_no_answers_total",
    FamilyKind.COUNTER,
    "POSTs of any stage that nobody answered: refused, reset, cut off, or out of time",
    SUBSCRIPTION,
)
STALE_CONNECTIONS = Family(
    "headrace_forward_stale_connections_total",
    FamilyKind.COUNTER,
    "POSTs of any stage that met the end of a connection kept from an earlier one: perhaps nobody has read them",
    SUBSCRIPTION,
)
FORWARDED = Family(
    "headrace_forward_events_total",
    FamilyKind.COUNTER,
    "Events by how they left the hands of this process; headrace_events_total counts those of all processes",
    (*SUBSCRIPTION, "outcome"),
)
LEASES_OPEN = Family("headrace_forward_leases_open", FamilyKind.GAUGE, "Leases that this process serves now")
LEASE_SECONDS = Family(
    "headrace_forward_lease_duration_seconds",
    FamilyKind.HISTOGRAM,
    "How long leases were served, the last answer of a subscriber included",
    bounds=LONG_BOUNDS,
)
IN_FLIGHT = Family(
    "headrace_forward_in_flight_events",
    FamilyKind.GAUGE,
    "Events in subscribers' hands, being settled, or pulled ahead for a quick subscriber",
)
IN_FLIGHT_BYTES = Family(
    "headrace_forward_in_flight_bytes",
    FamilyKind.GAUGE,
    "Bytes of events that leases hold or have asked for; FORWARD_MAX_PROCESS_BYTES bounds them",
)

# Of `reconcile`.

RECONCILE_SECONDS = Family(
    "headrace_reconcile_duration_seconds",
    FamilyKind.HISTOGRAM,
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
    CONNECTIONS,
    CLOSED,
    HELD_BYTES,
    CPU_SECONDS,
    MEMORY_BYTES,
    START_TIME,
)
RECEIVE = (STORED, DUPLICATES, STORE_SECONDS, WAITING_BYTES)
FORWARD = (
    DISPATCH_SECONDS,
    ONWARD_SECONDS,
    NO_ANSWERS,
    STALE_CONNECTIONS,
    FORWARDED,
    LEASES_OPEN,
    LEASE_SECONDS,
    IN_FLIGHT,
    IN_FLIGHT_BYTES,
)
RECONCILE = (RECONCILE_SECONDS,)
FUNCTIONS = (*EVERY, *RECEIVE, *FORWARD, *RECONCILE)
BY_NAME: Mapping[str, Family] = {family.name: family for family in FUNCTIONS}

# Of the opener of leases: the operator, or `headrace up`. A lease reports to its opener, which so counts for every
# `forward`, also for processes that are long gone.

PENDING = Family(
    "headrace_consumer_pending_events",
    FamilyKind.GAUGE,
    "Stored events that no lease has pulled yet: the lag",
    SUBSCRIPTION,
)
ACK_PENDING = Family(
    "headrace_consumer_ack_pending_events",
    FamilyKind.GAUGE,
    "Events that are pulled and not settled, retries included",
    SUBSCRIPTION,
)
MAX_ACK_PENDING = Family(
    "headrace_consumer_max_ack_pending_events",
    FamilyKind.GAUGE,
    "How many events may be pulled and not settled; 0 or less: any number",
    SUBSCRIPTION,
)
WINDOW_FULL = Family(
    "headrace_consumer_ack_window_full",
    FamilyKind.GAUGE,
    "1 while no fresh event is delivered, since too many are pulled and not settled",
    SUBSCRIPTION,
)
OPEN = Family("headrace_leases_open", FamilyKind.GAUGE, "Leases that are open", SUBSCRIPTION)
OPENED = Family("headrace_leases_opened_total", FamilyKind.COUNTER, "Leases that were opened", SUBSCRIPTION)
FAILURES = Family(
    "headrace_lease_failures_total", FamilyKind.COUNTER, "Leases that broke, or could not be opened", SUBSCRIPTION
)
EVENTS = Family(
    "headrace_events_total",
    FamilyKind.COUNTER,
    "Events by how they left a lease; redelivered and replied beside another",
    (*SUBSCRIPTION, "outcome"),
)
OLDEST_SECONDS = Family(
    "headrace_consumer_oldest_event_age_seconds",
    FamilyKind.GAUGE,
    "Age of the oldest event that is not settled; 0 when all are settled",
    SUBSCRIPTION,
)
STREAM_MESSAGES = Family(
    "headrace_stream_messages", FamilyKind.GAUGE, "Events that the channel's stream holds", CHANNEL
)
STREAM_BYTES = Family("headrace_stream_bytes", FamilyKind.GAUGE, "Bytes of the stream's events", CHANNEL)
STREAM_MAX_BYTES = Family(
    "headrace_stream_max_bytes",
    FamilyKind.GAUGE,
    "How many bytes the stream may hold; without a limit it is left out",
    CHANNEL,
)
STREAM_MAX_MESSAGES = Family(
    "headrace_stream_max_messages",
    FamilyKind.GAUGE,
    "How many events the stream may hold; without a limit it is left out",
    CHANNEL,
)
PARKED = Family(
    "headrace_parked_events",
    FamilyKind.GAUGE,
    "Events that could be delivered nowhere, and are kept aside; with more than 20,000 messages aside, all of those",
    CHANNEL,
)
ASIDE_MESSAGES = Family(
    "headrace_aside_messages",
    FamilyKind.GAUGE,
    "Messages of the aside stream: stage records and parked events",
    CHANNEL,
)
ASIDE_BYTES = Family("headrace_aside_bytes", FamilyKind.GAUGE, "Bytes of the aside stream's messages", CHANNEL)
ASIDE_MAX_BYTES = Family(
    "headrace_aside_max_bytes",
    FamilyKind.GAUGE,
    "How many bytes the aside stream may hold; left out while nobody has set a limit, as reconcile does not",
    CHANNEL,
)
STORAGE_READ = Family(
    "headrace_storage_read_timestamp_seconds",
    FamilyKind.GAUGE,
    "When ages, streams and aside streams were last read, seconds since the epoch; every 15 s while somebody scrapes",
)
HOOK_SECONDS = Family(
    "headrace_hook_duration_seconds",
    FamilyKind.HISTOGRAM,
    "Calls of reconcile by verb, and by result: ok, unavailable, or refused",
    ("verb", "result"),
    bounds=LONG_BOUNDS,
)
SCALER_CONNECTED = Family(
    "headrace_scaler_nats_connected", FamilyKind.GAUGE, "1 while the opener of leases is connected to NATS"
)

SCALER = (PENDING, ACK_PENDING, MAX_ACK_PENDING, WINDOW_FULL, OPEN, OPENED, FAILURES, EVENTS)
STORAGE = (
    OLDEST_SECONDS,
    STREAM_MESSAGES,
    STREAM_BYTES,
    STREAM_MAX_BYTES,
    STREAM_MAX_MESSAGES,
    PARKED,
    ASIDE_MESSAGES,
    ASIDE_BYTES,
    ASIDE_MAX_BYTES,
    STORAGE_READ,
)
OPERATOR = (*SCALER, *STORAGE, HOOK_SECONDS, SCALER_CONNECTED)

"""The dashboard of storage and connections."""

from __future__ import annotations

from infra.generate.grafana import Dashboard, Number, Panel
from infra.generate.queries import CHANNEL

STORAGE = Dashboard(
    "headrace-storage",
    "Headrace: storage and connections",
    (
        Panel(
            "Events in streams",
            "Each channel's stream holds what its retention says.",
            ((f"sum by (namespace, channel) (headrace_stream_messages{{{CHANNEL}}})", "{{channel}}"),),
        ),
        Panel(
            "Bytes in streams",
            "With a limit, the next graph says how near it is.",
            ((f"sum by (namespace, channel) (headrace_stream_bytes{{{CHANNEL}}})", "{{channel}}"),),
            "bytes",
        ),
        Panel(
            "How full limited streams are",
            "A full stream answers 507, or discards its oldest events, as it is told to.",
            (
                (
                    f"max by (namespace, channel) (headrace_stream_bytes{{{CHANNEL}}} / headrace_stream_max_bytes"
                    f"{{{CHANNEL}}})",
                    "{{channel}} bytes",
                ),
                (
                    f"max by (namespace, channel) (headrace_stream_messages{{{CHANNEL}}} / headrace_stream_max_messages"
                    f"{{{CHANNEL}}})",
                    "{{channel}} events",
                ),
            ),
            "percentunit",
        ),
        Panel(
            "How full aside streams are",
            "Without room there, events that fail stay in line. There is no limit but what somebody sets.",
            (
                (
                    f"max by (namespace, channel) (headrace_aside_bytes{{{CHANNEL}}} / headrace_aside_max_bytes"
                    f"{{{CHANNEL}}})",
                    "{{channel}}",
                ),
            ),
            "percentunit",
        ),
        Panel(
            "Messages aside",
            "Stage records of events that wait for their retry, and parked events.",
            (
                (f"sum by (namespace, channel) (headrace_aside_messages{{{CHANNEL}}})", "{{channel}}"),
                (f"sum by (namespace, channel) (headrace_parked_events{{{CHANNEL}}})", "{{channel}} parked"),
            ),
        ),
        Panel(
            "Connections to NATS",
            "Processes without one, and connections that broke.",
            (
                ("sum by (function) (headrace_workers - headrace_nats_connected)", "{{function}} without"),
                (
                    "sum by (function) (increase(headrace_nats_disconnects_total[$__rate_interval]))",
                    "{{function}} broke",
                ),
                ("1 - min(headrace_scaler_nats_connected)", "operator without"),
            ),
        ),
        Panel(
            "Reconciling",
            "Calls of reconcile in a second, by how they ended.",
            (
                (
                    "sum by (verb, result) (rate(headrace_hook_duration_seconds_count[$__rate_interval]))",
                    "{{verb}} {{result}}",
                ),
                (
                    "sum by (verb, code) (rate(headrace_reconcile_duration_seconds_count[$__rate_interval]))",
                    "{{verb}} {{code}}, told by reconcile itself",
                ),
            ),
        ),
        Panel(
            "Memory held for events",
            "In receive those on their way in, in forward those in hand or asked for.",
            (
                ("sum(headrace_receive_waiting_bytes)", "receive"),
                ("sum(headrace_forward_in_flight_bytes)", "forward"),
                ("sum by (function) (headrace_request_bytes)", "{{function}}, requests on their way in"),
            ),
            "bytes",
        ),
        Panel(
            "Connections of clients",
            "Those that are open, and how many in a second were closed, by reason.",
            (
                ("sum by (function) (headrace_connections)", "{{function}}"),
                (
                    "sum by (reason) (rate(headrace_connections_closed_total[$__rate_interval]))",
                    "closed in a second: {{reason}}",
                ),
            ),
        ),
        Panel(
            "CPU of the functions",
            "Seconds of CPU time in a second.",
            (
                (
                    "sum by (function) (rate(process_cpu_seconds_total[$__rate_interval]) * on (job, instance) "
                    "group_left (function) (headrace_workers > bool 0))",
                    "{{function}}",
                ),
            ),
        ),
        Panel(
            "Time to reconcile",
            "The 95th percentile of calls of reconcile.",
            (
                (
                    "histogram_quantile(0.95, sum by (verb, le) "
                    "(rate(headrace_hook_duration_seconds_bucket[$__rate_interval])))",
                    "{{verb}}",
                ),
            ),
            "s",
        ),
    ),
    numbers=(
        Number("Events held", "In the streams of all channels.", f"sum(headrace_stream_messages{{{CHANNEL}}})"),
        Number("Bytes held", "In the streams of all channels.", f"sum(headrace_stream_bytes{{{CHANNEL}}})", "bytes"),
        Number(
            "Fullest stream",
            "Of those with a limit, by bytes or by events.",
            # Told apart by a label, or the second of a stream with both would be left out.
            f"max(headrace_stream_bytes{{{CHANNEL}}} / headrace_stream_max_bytes{{{CHANNEL}}} or label_replace("
            f"headrace_stream_messages{{{CHANNEL}}} / headrace_stream_max_messages{{{CHANNEL}}}"
            ', "of", "events", "", ""))',
            "percentunit",
            doubtful=0.8,
            bad=0.95,
        ),
        Number(
            "Storage was read ago",
            "Ages and sizes are as old as this; they are read every 15 s while somebody scrapes.",
            "time() - max(headrace_storage_read_timestamp_seconds)",
            "s",
            doubtful=60,
            bad=300,
        ),
        Number(
            "Processes without NATS",
            "Of the functions that run.",
            "sum(headrace_workers - headrace_nats_connected)",
            bad=1,
        ),
        Number(
            "Failed calls of reconcile",
            "In the time that is shown.",
            'round(sum(increase(headrace_hook_duration_seconds_count{result!="ok"}[$__range]))) or vector(0)',
            doubtful=1,
        ),
    ),
)

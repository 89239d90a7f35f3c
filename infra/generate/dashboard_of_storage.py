"""The dashboard of storage and connections."""

from __future__ import annotations

from infra.generate.grafana import Dashboard, Panel
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
            "Without room there, events that fail stay in line.",
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
            "Calls of reconcile by how they ended, and their 95th percentile.",
            (
                (
                    "sum by (verb, result) (rate(headrace_hook_duration_seconds_count[$__rate_interval]))",
                    "{{verb}} {{result}}",
                ),
                (
                    "histogram_quantile(0.95, sum by (le) "
                    "(rate(headrace_hook_duration_seconds_bucket[$__rate_interval])))",
                    "p95 in seconds",
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
            ),
            "bytes",
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
            "When storage was last read",
            "Ages and sizes are as old as this; it is read every 15 s while somebody scrapes.",
            (("time() - max(headrace_storage_read_timestamp_seconds)", "seconds ago"),),
            "s",
        ),
    ),
)

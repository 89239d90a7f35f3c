"""Writes the Grafana dashboards in `infra/grafana`: delivery, lag and latency, storage.

`task dashboards` runs it, and a unit test holds the committed files against it; a contract test holds every name and
label in them against what a real run exposes. Import them as they are, or mount them with Grafana's sidecar.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.core.lease import Outcome

FOLDER = Path(__file__).resolve().parents[1] / "grafana"
# Of the dashboard format; newer Grafanas migrate it by themselves.
SCHEMA = 39
WIDTH, HEIGHT = 12, 8
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
# What the three variables at the top select.
CHANNEL = 'namespace=~"$namespace", channel=~"$channel"'
CHOSEN = f'{CHANNEL}, subscription=~"$subscription"'
KNATIVE = 'kn_channel_namespace=~"$namespace", kn_channel_name=~"$channel", kn_subscription_name=~"$subscription"'
BY = "namespace, channel, subscription"
DISPATCHED = "kn_eventing_dispatch_duration_seconds_count"
WHO = "{{channel}} / {{subscription}}"


@dataclass(frozen=True)
class Panel:
    """One graph.

    Attributes:
        why: shown when one points at the title.
        queries: expression and legend of each line.
        unit: Grafana's name of it.
    """

    title: str
    why: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    stacked: bool = False


@dataclass(frozen=True)
class Dashboard:
    uid: str
    title: str
    panels: tuple[Panel, ...] = field(default=())


def rate(metric: str, chosen: str) -> str:
    return f"rate({metric}{{{chosen}}}[$__rate_interval])"


def quantiles(metric: str, chosen: str) -> tuple[tuple[str, str], ...]:
    inside = f"sum by (le) ({rate(f'{metric}_bucket', chosen)})"
    return tuple((f"histogram_quantile({q / 100}, {inside})", f"p{q}") for q in (50, 95, 99))


def outcomes(*wanted: Outcome) -> str:
    return f'{CHOSEN}, outcome=~"{"|".join(wanted)}"'


DELIVERY = Dashboard(
    "headrace-delivery",
    "Headrace: delivery",
    (
        Panel(
            "Requests of producers, by status",
            "202: stored. 4xx: for the sender to cure. 503: NATS is away, or too much waits. 507: a full stream.",
            (('sum by (code) (rate(headrace_requests_total{function="receive"}[$__rate_interval]))', "{{code}}"),),
            "reqps",
            stacked=True,
        ),
        Panel(
            "Events stored, by channel",
            "Acknowledged by JetStream; duplicates it had already.",
            (
                (
                    f"sum by (namespace, channel) ({rate('headrace_receive_stored_events_total', CHANNEL)})",
                    "{{channel}}",
                ),
                (f"sum({rate('headrace_receive_duplicate_events_total', CHANNEL)})", "duplicates"),
            ),
            "eps",
        ),
        Panel(
            "What became of events",
            "How events left the leases, over all processes of forward, also those that are gone.",
            ((f"sum by (outcome) ({rate('headrace_events_total', CHOSEN)})", "{{outcome}}"),),
            "eps",
        ),
        Panel(
            "Answers of subscribers",
            "POSTs by status, as Knative's dispatchers tell of them; 500 also stands for no answer.",
            (
                (
                    f"sum by (http_response_status_code) ({rate(DISPATCHED, KNATIVE)})",
                    "{{http_response_status_code}}",
                ),
                (f"sum({rate('headrace_forward_no_answers_total', CHOSEN)})", "of these without an answer"),
            ),
            "reqps",
        ),
        Panel(
            "Trouble, by subscription",
            "Retried: the budget goes on. Dead letters and parked events: it is used up.",
            (
                (
                    f"sum by ({BY}, outcome) ("
                    + rate("headrace_events_total", outcomes(Outcome.RETRIED, Outcome.DEAD_LETTERED, Outcome.PARKED))
                    + ") > 0",
                    WHO + " {{outcome}}",
                ),
            ),
            "eps",
        ),
        Panel(
            "Parked events",
            "Delivered nowhere, lost nowhere: list, replay or discard them.",
            ((f"sum by (namespace, channel) (headrace_parked_events{{{CHANNEL}}})", "{{channel}}"),),
        ),
        Panel(
            "Lost, stuck, or in doubt",
            "Discarded by the server before their turn; neither delivered nor parked; left to be redelivered. "
            "Nothing is shown on a good day.",
            (
                (
                    f"sum by ({BY}, outcome) (increase(headrace_events_total"
                    f"{{{outcomes(Outcome.DISCARDED, Outcome.STUCK, Outcome.UNSETTLED)}}}[$__rate_interval])) > 0",
                    WHO + " {{outcome}}",
                ),
            ),
        ),
        Panel(
            "Leases",
            "Open ones, by subscription, and those that broke or could not be opened.",
            (
                (f"sum by ({BY}) (headrace_leases_open{{{CHOSEN}}})", WHO),
                (f"sum(increase(headrace_lease_failures_total{{{CHOSEN}}}[$__rate_interval]))", "failures"),
                (f"sum(increase(headrace_leases_opened_total{{{CHOSEN}}}[$__rate_interval]))", "opened"),
            ),
        ),
    ),
)

LAG = Dashboard(
    "headrace-lag",
    "Headrace: lag and latency",
    (
        Panel(
            "Lag: events that nobody has pulled yet",
            "Leases are opened in proportion to it.",
            ((f"sum by ({BY}) (headrace_consumer_pending_events{{{CHOSEN}}})", WHO),),
        ),
        Panel(
            "Age of the oldest unsettled event",
            "The lag in time: a retry that waits counts, too.",
            ((f"max by ({BY}) (headrace_consumer_oldest_event_age_seconds{{{CHOSEN}}})", WHO),),
            "s",
        ),
        Panel(
            "Un-acked events, part of the window",
            "At 100 % no fresh event is delivered.",
            (
                (
                    f"max by ({BY}) (headrace_consumer_ack_pending_events{{{CHOSEN}}}) / "
                    f"max by ({BY}) (headrace_consumer_max_ack_pending_events{{{CHOSEN}}} > 0)",
                    WHO,
                ),
                (f"max by ({BY}) (headrace_consumer_ack_window_full{{{CHOSEN}}}) > 0", WHO + " is full"),
            ),
            "percentunit",
        ),
        Panel(
            "In flight",
            "Events in subscribers' hands, and the leases that hold them.",
            (
                ("sum(headrace_forward_in_flight_events)", "events in hand"),
                ("sum(rate(headrace_forward_events_total[$__rate_interval]))", "events settled in a second"),
                ("sum(headrace_forward_leases_open)", "leases"),
            ),
        ),
        Panel(
            "Subscribers' time to answer",
            "One POST, the name look-up and a new connection included.",
            quantiles("kn_eventing_dispatch_duration_seconds", KNATIVE),
            "s",
        ),
        Panel(
            "Slowest subscriptions",
            "The 95th percentile of each.",
            (
                (
                    "topk(10, histogram_quantile(0.95, sum by (le, kn_channel_name, kn_subscription_name) ("
                    + rate("kn_eventing_dispatch_duration_seconds_bucket", KNATIVE)
                    + ")))",
                    "{{kn_channel_name}} / {{kn_subscription_name}}",
                ),
            ),
            "s",
        ),
        Panel(
            "Replies and dead letters",
            "The 95th percentile of POSTs to reply addresses and dead letter sinks.",
            (
                (
                    "histogram_quantile(0.95, sum by (le, stage) ("
                    + rate("headrace_forward_onward_duration_seconds_bucket", CHOSEN)
                    + "))",
                    "{{stage}}",
                ),
            ),
            "s",
        ),
        Panel(
            "Time to store an event",
            "From the whole event to JetStream's acknowledgement.",
            tuple(
                (
                    f"histogram_quantile({q / 100}, sum by (le) "
                    "(rate(headrace_receive_store_duration_seconds_bucket[$__rate_interval])))",
                    f"p{q}",
                )
                for q in (50, 95, 99)
            ),
            "s",
        ),
        Panel(
            "Start from zero",
            "From the start of a process until it listens, is ready, and has answered.",
            (("max by (function, until) (headrace_start_seconds)", "{{function}} {{until}}"),),
            "s",
        ),
        Panel(
            "How long leases last",
            "20 s under load; less where little comes.",
            (
                (
                    "histogram_quantile(0.5, sum by (le) "
                    "(rate(headrace_forward_lease_duration_seconds_bucket[$__rate_interval])))",
                    "p50",
                ),
            ),
            "s",
        ),
    ),
)

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

ALL = (DELIVERY, LAG, STORAGE)


def rendered(dashboard: Dashboard) -> dict[str, Any]:
    """As Grafana imports it."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "tags": ["headrace", "knative", "nats"],
        "schemaVersion": SCHEMA,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": _variables()},
        "panels": [_panel(number, panel) for number, panel in enumerate(dashboard.panels)],
    }


def _variables() -> list[dict[str, Any]]:
    source: dict[str, Any] = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    chosen: list[str] = []
    found = [source]
    for name in ("namespace", "channel", "subscription"):
        above = f"{{{', '.join(chosen)}}}" if chosen else ""
        query = f"label_values(headrace_consumer_pending_events{above}, {name})"
        found.append(
            {
                "name": name,
                "label": name.capitalize(),
                "type": "query",
                "datasource": SOURCE,
                "query": {"query": query, "refId": name},
                "refresh": 2,
                "multi": True,
                "includeAll": True,
                "allValue": ".*",
                "sort": 1,
                "current": {"text": ["All"], "value": ["$__all"]},
            }
        )
        chosen.append(f'{name}=~"${name}"')
    return found


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    custom: dict[str, Any] = {"lineWidth": 1, "fillOpacity": 10, "showPoints": "never"}
    if panel.stacked:
        custom["stacking"] = {"mode": "normal", "group": "A"}
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.why,
        "datasource": SOURCE,
        "gridPos": {"x": number % 2 * WIDTH, "y": number // 2 * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "custom": custom}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + place), "expr": expression, "legendFormat": legend, "datasource": SOURCE}
            for place, (expression, legend) in enumerate(panel.queries)
        ],
    }


def text(dashboard: Dashboard) -> str:
    """The file."""
    return json.dumps(rendered(dashboard), indent=2) + "\n"


def file(dashboard: Dashboard) -> Path:
    return FOLDER / f"{dashboard.uid}.json"


if __name__ == "__main__":
    for each in ALL:
        file(each).write_text(text(each), encoding="utf-8")

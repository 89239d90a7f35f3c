"""Writes the Grafana dashboards in `infra/grafana`: delivery, lag and latency, storage.

`task dashboards` runs it, and a unit test holds the committed files against it; a contract test holds every name and
label in them against what a real run exposes. Import them as they are, or mount them with Grafana's sidecar.
"""

from __future__ import annotations

from headrace.core.delivery.lease import Outcome
from infra.generate.dashboard_of_storage import STORAGE
from infra.generate.grafana import Dashboard, Number, Panel, file, text
from infra.generate.queries import BY, CHANNEL, CHOSEN, DISPATCHED, KNATIVE, WHO, outcomes, quantiles, rate

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
                (f"sum({rate('headrace_forward_stale_connections_total', CHOSEN)})", "of these on a kept connection"),
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
    numbers=(
        Number(
            "Stored in a second",
            "Events that JetStream has acknowledged.",
            f"sum({rate('headrace_receive_stored_events_total', CHANNEL)})",
            "eps",
        ),
        Number(
            "Delivered in a second",
            "Events that a subscriber has taken; each counts once for each Subscription.",
            f"sum({rate('headrace_events_total', outcomes(Outcome.DELIVERED))})",
            "eps",
        ),
        Number(
            "Refusals in a second",
            "Requests of producers that were answered with 4xx or 5xx.",
            'sum(rate(headrace_requests_total{function="receive", code=~"[45].."}[$__rate_interval])) or vector(0)',
            "reqps",
            doubtful=0.001,
        ),
        Number(
            "Dead letters",
            "In the time that is shown.",
            f"round(sum(increase(headrace_events_total{{{outcomes(Outcome.DEAD_LETTERED)}}}[$__range]))) or vector(0)",
            doubtful=1,
        ),
        Number(
            "Parked now",
            "Delivered nowhere, lost nowhere: list, replay or discard them.",
            f"sum(headrace_parked_events{{{CHANNEL}}})",
            doubtful=1,
        ),
        Number(
            "Stuck or discarded",
            "In the time that is shown: no room aside, or discarded by the server before their turn.",
            f"round(sum(increase(headrace_events_total{{{outcomes(Outcome.STUCK, Outcome.DISCARDED)}}}[$__range]))) "
            "or vector(0)",
            bad=1,
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
            "From the start of a process until it listens, is ready, and has answered; a lease's answer is its end.",
            (
                (
                    'max by (function, until) (headrace_start_seconds{until!="answer"} or '
                    'headrace_start_seconds{function!="forward"})',
                    "{{function}} {{until}}",
                ),
            ),
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
    numbers=(
        Number(
            "Lag now",
            "Events that nobody has pulled yet, of all Subscriptions.",
            f"sum(headrace_consumer_pending_events{{{CHOSEN}}})",
        ),
        Number(
            "Oldest unsettled event",
            "Of all Subscriptions.",
            f"max(headrace_consumer_oldest_event_age_seconds{{{CHOSEN}}})",
            "s",
            doubtful=60,
            bad=600,
        ),
        Number("In hand now", "Events in subscribers' hands.", "sum(headrace_forward_in_flight_events)"),
        Number(
            "Answers of subscribers, p95",
            "One POST, the name look-up and a new connection included.",
            quantiles("kn_eventing_dispatch_duration_seconds", KNATIVE)[1][0],
            "s",
        ),
        Number(
            "Time to store, p95",
            "From the whole event to JetStream's acknowledgement.",
            "histogram_quantile(0.95, sum by (le) "
            "(rate(headrace_receive_store_duration_seconds_bucket[$__rate_interval])))",
            "s",
            doubtful=0.1,
            bad=1,
        ),
        Number(
            "Full ack windows",
            "Subscriptions that get no fresh event, since too many are not settled.",
            f"sum(headrace_consumer_ack_window_full{{{CHOSEN}}})",
            bad=1,
        ),
    ),
)

ALL = (DELIVERY, LAG, STORAGE)


if __name__ == "__main__":
    for each in ALL:
        file(each).write_text(text(each), encoding="utf-8")

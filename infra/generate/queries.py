"""The common parts of the queries of several dashboards."""

from __future__ import annotations

from headrace.core.delivery.lease import Outcome

# What the three variables at the top select.
CHANNEL = 'namespace=~"$namespace", channel=~"$channel"'
CHOSEN = f'{CHANNEL}, subscription=~"$subscription"'
KNATIVE = 'kn_channel_namespace=~"$namespace", kn_channel_name=~"$channel", kn_subscription_name=~"$subscription"'
BY = "namespace, channel, subscription"
DISPATCHED = "kn_eventing_dispatch_duration_seconds_count"
WHO = "{{channel}} / {{subscription}}"


def rate(metric: str, chosen: str) -> str:
    return f"rate({metric}{{{chosen}}}[$__rate_interval])"


def quantiles(metric: str, chosen: str) -> tuple[tuple[str, str], ...]:
    inside = f"sum by (le) ({rate(f'{metric}_bucket', chosen)})"
    return tuple((f"histogram_quantile({q / 100}, {inside})", f"p{q}") for q in (50, 95, 99))


def outcomes(*wanted: Outcome) -> str:
    return f'{CHOSEN}, outcome=~"{"|".join(wanted)}"'

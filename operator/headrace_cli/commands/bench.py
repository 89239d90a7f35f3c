"""The words of `bench`."""

from __future__ import annotations

from headrace_cli.commands import params
from headrace_cli.commands.rules import Given, Unless
from headrace_cli.commands.sessions import on_nats

BENCH = """\
Measure a channel: how fast it takes events, and how fast its Subscriptions settle them. The events are real ones of
type headrace.bench, and its subscribers get them, so it asks first.

They go over HTTP to a `headrace up` that runs here, or to --url; else straight into the stream. Where a Subscription
has `headrace.dev/delivery-order: by-key`, they have that many --keys in its `headrace.dev/order-key`: events of one key
are delivered one after the other, so few keys are slow.

examples:
  kn jetstream bench orders --events 10000 --size 1024 --parallel 20
  kn jetstream bench orders --rate 500 --events 30000 --yes -o json
  kn jetstream bench orders --publish-only --url http://receive.example.com/default/orders
"""


def _bench(_: str, given: Given) -> int:
    from headrace_cli.commands.actions import bench

    return on_nats(given, bench.measure)


COMMAND = params.verb(
    "bench",
    _bench,
    params.Words(BENCH, "Measure publishing and delivery."),
    params.channel(),
    params.number("--events", "How many.", least=1, default=1000),
    params.number("--size", "Data of each event.", least=0, most=1_000_000, default=256, metavar="BYTES"),
    params.number(
        "--keys", "Different keys of the events, in turn, where they are delivered by key.", least=1, default=100
    ),
    params.number("--parallel", "How many are on their way at once.", least=1, most=1000, default=10),
    params.rate(),
    params.flag("--publish-only", "Don't wait for Subscriptions."),
    params.seconds("--wait", "How long to wait for Subscriptions, at most.", default=60.0),
    params.address("--url", "POST the events to this URL."),
    params.yes(),
    formats=("table", "json", "yaml"),
    obeys=[
        Unless(
            "wait",
            lambda given: not given["publish_only"],
            "is for Subscriptions, which --publish-only does not wait for: leave out one of the two",
        )
    ],
)

"""Dashboards and alerts ask for metrics that a real run tells: every name, with every label.

`receive`, `forward` and `reconcile` as processes with ports of their own, and `headrace up` beside them, whose metrics
are those of the operator; all on one nats-server, with events that are delivered, retried, replied to and parked.
"""

from __future__ import annotations

from pathlib import Path

from headrace.core import metric_families as families
from headrace.core.metrics import FamilyKind
from infra.generate.dashboards import ALL
from tests.support.functions.functions import TOKEN, Function
from tests.support.http.sending import BINARY, send
from tests.support.http.subscriber import Say, Subscriber
from tests.support.laptop.laptop import Laptop, emit
from tests.support.nats.nats_server import NatsServer, free_port
from tests.support.nats.streams import Nats
from tests.support.programs import promql
from tests.support.programs.alerts import rules
from tests.support.programs.scraping import Scrape, scrape
from tests.support.waiting import until

pytest_plugins = ["tests.support.functions.served"]

REPLY = {"ce-specversion": "1.0", "ce-id": "r", "ce-source": "/billing", "ce-type": "order.billed"}
SUBSCRIPTION = """
apiVersion: messaging.knative.dev/v1
kind: Subscription
metadata: {name: NAME}
spec:
  channel: {kind: NatsJetStreamChannel, name: orders}
  subscriber: {uri: "URI"}
  reply: {uri: "REPLY"}
---
"""
# A channel with limits has all there is.
LIMITED = """
apiVersion: messaging.knative.dev/v1alpha1
kind: NatsJetStreamChannel
metadata: {name: orders}
spec: {stream: {config: {maxBytes: 100000000, maxMsgs: 100000}}}
---
"""


async def of_the_functions(server: NatsServer, nats: Nats, subscriber: Subscriber, directory: Path) -> list[Scrape]:
    """Each function has done something, and tells of it."""
    ports = {name: str(free_port()) for name in ("receive", "forward", "reconcile")}
    made = {name: Function(name, server.url, directory, METRICS_PORT=port) for name, port in ports.items()}
    place, replies = subscriber.place(Say(200, REPLY, b"{}"), Say(400)), subscriber.place()
    with made["receive"] as receive, made["forward"] as forward, made["reconcile"] as reconcile:
        lane = await nats.serve(forward, subscriber=place.uri, reply=replies.uri)
        for id in ("1", "2", "2"):
            assert (await send(receive.url + lane.channel.path, b"{}", {**BINARY, "ce-id": id})).status == 202
        await lane.lease(linger=0.5)
        await send(f"{reconcile.url}/sync", b"{}", {"authorization": f"Bearer {TOKEN}"})
        return [await scrape(int(port)) for port in ports.values()]


async def of_the_operator(server: NatsServer, nats: Nats, subscriber: Subscriber, directory: Path) -> Scrape:
    """Events are delivered, parked, and in line."""
    good, bad, slow = subscriber.place(), subscriber.place(Say(400)), subscriber.place(Say(503))
    entries = {"good": good.uri, "bad": bad.uri, "slow": slow.uri}
    manifests = [
        SUBSCRIPTION.replace("NAME", n).replace("URI", u).replace("REPLY", good.uri) for n, u in entries.items()
    ]
    manifests[2] = manifests[2].replace("  reply:", "  delivery: {retry: 5, backoffDelay: PT60S}\n  reply:")
    port = free_port()
    options = ("--nats", server.url, "--metrics", f"127.0.0.1:{port}")
    with Laptop(directory, LIMITED, *manifests, options=options) as laptop:
        laptop.wait_until_ready()
        # Aside there is no limit but what somebody sets.
        aside = await nats.call("STREAM.INFO.KN_DEFAULT__ORDERS_aside")
        await nats.call("STREAM.UPDATE.KN_DEFAULT__ORDERS_aside", {**aside["config"], "max_bytes": 1_000_000})
        await emit(laptop, "1", "2")
        subscriptions = {"channel": "orders", "namespace": "default"}

        async def all_is_told() -> bool:
            found = await scrape(port)
            return (
                found.has("headrace_parked_events", **subscriptions)
                and found.value("headrace_parked_events", **subscriptions) == 2
                and found.has("headrace_aside_max_bytes", **subscriptions)
                and found.has("headrace_consumer_oldest_event_age_seconds", subscription="slow")
                and found.value("headrace_consumer_oldest_event_age_seconds", subscription="slow") > 0
            )

        await until("parked and old events are told of", all_is_told, 60)
        found = await scrape(port)
        assert found.value("headrace_consumer_oldest_event_age_seconds", subscription="good") == 0
        assert found.value("headrace_stream_messages", **subscriptions) == 2
        assert found.value("headrace_stream_max_bytes", **subscriptions) == 100_000_000
        assert found.value("headrace_scaler_nats_connected") == 1
        assert found.value("headrace_hook_duration_seconds_count", verb="sync", result="ok") >= 1
        return found


async def test_a_real_run_tells_all_that_dashboards_and_alerts_ask_for(
    shared_server: NatsServer, nats: Nats, subscriber: Subscriber, tmp_path: Path
) -> None:
    scrapes = await of_the_functions(shared_server, nats, subscriber, tmp_path)
    laptop = tmp_path / "laptop"
    laptop.mkdir()
    all_in_one = await of_the_operator(shared_server, nats, subscriber, laptop)

    told: dict[str, set[str]] = {}
    kinds: dict[str, str] = {}
    for each in (*scrapes, all_in_one):
        kinds |= each.kinds
        # The page of `headrace up` says whose each sample of a function is; in a cluster the target does.
        added = {"function"} if each is all_in_one else set()
        for sample in each.samples:
            told.setdefault(sample.name, set()).update(set(sample.labels) - added)
    asked = [
        *(query for each in ALL for panel in each.panels for query, _ in panel.queries),
        *(rule["expr"] for rule in rules()),
    ]
    for query in asked:
        for name, labels in promql.asked(query):
            assert name in told, f"nobody tells {name}, which is asked for by {query}"
            assert labels - promql.OF_THE_SCRAPE <= told[name], f"{name} has only {told[name]}, in {query}"

    # And the other way round: what is told is what docs/metrics.md says of it.
    for family in (*families.FUNCTIONS, *families.OPERATOR):
        stem = family.name.removesuffix("_total") if family.kind is FamilyKind.COUNTER else family.name
        assert kinds.pop(stem) == family.kind, family.name
        sample = f"{family.name}_count" if family.kind is FamilyKind.HISTOGRAM else family.name
        assert told[sample] == set(family.labels), family.name
    assert kinds == {}

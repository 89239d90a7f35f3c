"""The scaler's metrics, as Prometheus reads them."""

from __future__ import annotations

import asyncio
import socket
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace.core.delivery.lease import Outcome
from headrace.core.delivery.subscriber import Subscriber
from headrace.core.errors import Misconfigured
from headrace_operator import probes
from headrace_operator.scaling.lag import Counters, Outlook
from headrace_operator.scaling.served_streams import ScaledConsumer
from tests.support.http.sending import send

BILLING = Subscriber("shop", "orders", 'bill"ing', "u", 1, "KN_aside")
LABELS = {"namespace": "shop", "channel": "orders", "subscription": 'bill"ing'}


async def scraped(served: ScaledConsumer) -> dict[tuple[str, str], float]:
    """Values by name and outcome, as Prometheus would have them."""
    async with probes.served("127.0.0.1", 0, lambda: [served.row], (), option="--metrics") as port:
        text = await _get(f"http://127.0.0.1:{port}/metrics")
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    assert all({**sample.labels, **LABELS} == sample.labels for sample in samples)
    return {(sample.name, sample.labels.get("outcome", "")): sample.value for sample in samples}


async def _get(url: str) -> str:
    def get() -> str:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return str(answer.read().decode())

    return await asyncio.to_thread(get)


async def test_backlog_windows_leases_and_outcomes_are_told() -> None:
    served = ScaledConsumer(
        "S", "C", BILLING, Outlook(1000, 4, Counters(pending=7, ack_pending=5, max_ack_pending=5), open=2)
    )
    served.opened, served.failures = 9, 1
    served.counts[Outcome.DELIVERED], served.counts[Outcome.REDELIVERED] = 100, 3
    found = await scraped(served)
    assert {name: value for (name, outcome), value in found.items() if not outcome} == {
        "headrace_consumer_pending_events": 7,
        "headrace_consumer_ack_pending_events": 5,
        "headrace_consumer_max_ack_pending_events": 5,
        "headrace_consumer_ack_window_full": 1,
        "headrace_leases_open": 2,
        "headrace_leases_opened_total": 9,
        "headrace_lease_failures_total": 1,
    }
    assert found["headrace_events_total", "delivered"] == 100
    assert found["headrace_events_total", "redelivered"] == 3
    assert found["headrace_events_total", "discarded"] == 0


async def test_a_window_with_room_is_told_as_zero() -> None:
    served = ScaledConsumer("S", "C", BILLING, Outlook(1000, 4, Counters(ack_pending=4, max_ack_pending=5)))
    assert (await scraped(served))["headrace_consumer_ack_window_full", ""] == 0


async def test_an_address_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = f"--metrics 127.0.0.1:{port} can't be served: something else listens there: stop what does, or give "
        with pytest.raises(Misconfigured, match=told):
            async with probes.served("127.0.0.1", port, lambda: (), (), option="--metrics"):
                raise AssertionError("it is served")


@pytest.mark.parametrize(
    ("host", "answered"), [("attacker.example", 421), ("localhost.", 421), ("localhost:9464", 200), ("[::1]", 200)]
)
async def test_a_page_whose_name_leads_to_this_machine_reads_nothing(host: str, answered: int) -> None:
    async with probes.served("127.0.0.1", 0, lambda: (), (), option="--metrics") as port:
        for path in ("/metrics", "/healthz"):
            reply = await send(f"http://127.0.0.1:{port}{path}", headers={"host": host}, method="GET")
            assert reply.status == answered

"""`bench`, `convert` and `completion`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import marked
from tests.support.functions.functions import Function
from tests.support.functions.ordering import serve_by_key
from tests.support.http.subscriber import Say, Subscriber
from tests.support.laptop.cli import Cli, run
from tests.support.nats.streams import Channel, Nats

CONVERT = Path(__file__).parents[2] / "docs/convert"


async def test_a_bench_measures_publishing(cli: Cli, nats: Nats, orders: Channel) -> None:
    ran = await cli("bench", orders.path[1:], "--events", "50", "--size", "10", "--yes", "-o", "json")

    published = ran.ok().json["published"]
    assert published["events"] == 50
    assert 0 < published["latencyMs"]["p50"] <= published["latencyMs"]["p99"]
    stored = await nats.stored(orders.stream)
    assert len({each.headers["ce-id"] for each in stored}) == 50
    assert {len(each.data) for each in stored} == {10}


async def test_a_bench_of_a_channel_by_key_has_keys(
    cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    lane = await serve_by_key(
        nats, forward, await marked(nats), subscriber=subscriber.place(Say()).uri, orderKey="tenant"
    )
    options = ("--events", "9", "--keys", "3", "--wait", "0.1", "--yes", "-o", "json")

    ran = await cli("bench", lane.channel.path[1:], *options)

    assert ran.json["published"]["keys"] == {"tenant": 3}
    tenants = [each.headers["ce-tenant"] for each in await nats.stored(lane.channel.stream)]
    assert sorted(Counter(tenants).values()) == [3, 3, 3]


async def test_a_bench_asks_and_says_who_does_not_keep_up(
    cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    lane = await nats.serve(forward, await marked(nats), subscriber=subscriber.place(Say()).uri)
    command = ("bench", lane.channel.path[1:], "--events", "5", "--wait", "0.2")

    asked = await cli(*command)
    ran = await cli(*command, "--yes", "-o", "json")

    assert (asked.status, "and so to demo/billing" in asked.err) == (2, True)
    assert (ran.status, ran.json["settled"][0]["pending"]) == (1, 5)


def test_manifests_are_converted_with_notes_beside() -> None:
    ran = run("convert", "-f", str(CONVERT / "kyma.yaml"))

    kinds = [body["kind"] for body in yaml.safe_load_all(ran.ok().out)]
    assert "Trigger" in kinds
    assert "typeMatching" in ran.err


IN_MEMORY = b"""
apiVersion: messaging.knative.dev/v1
kind: InMemoryChannel
metadata: {name: orders, namespace: shop}
"""


def test_manifests_are_converted_from_standard_input() -> None:
    ran = run("convert", "-f", "-", "--strict", stdin=IN_MEMORY)

    [body] = yaml.safe_load_all(ran.ok().out)
    assert (body["kind"], body["metadata"]) == ("NatsJetStreamChannel", {"namespace": "shop", "name": "orders"})
    assert "standard input:2, document 1: events that the old channel still holds" in ran.err


@pytest.mark.parametrize("given", [b"kind: Secret\napiVersion: v1\n", (CONVERT / "argo.yaml").read_bytes()])
def test_with_strict_what_has_no_equal_fails(given: bytes) -> None:
    lax, strict = run("convert", "-f", "-", stdin=given), run("convert", "-f", "-", "--strict", stdin=given)

    assert (lax.status, strict.status) == (0, 1)
    assert strict.out == lax.out
    assert strict.err.endswith((" has no equal\n", " have no equal\n"))


@pytest.mark.parametrize(("given", "problem"), [(b"a: [", "standard input, document 1"), (b"\xff", "not UTF-8")])
def test_standard_input_that_is_no_manifest_is_told(given: bytes, problem: str) -> None:
    ran = run("convert", "-f", "-", stdin=given)

    assert ran.status != 0
    assert problem in ran.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_told_how_to_complete(shell: str) -> None:
    out = run("completion", shell).ok().out

    assert "_HEADRACE_COMPLETE" in out
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=out, text=True, check=True, timeout=30)


@pytest.mark.parametrize(
    ("words", "offered"),
    [("headrace subscr", {"subscription"}), ("headrace peek --li", {"--limit"}), ("headrace send -o j", {"json"})],
)
def test_verbs_and_options_are_completed(words: str, offered: set[str]) -> None:
    assert offered <= _completed(words)


async def test_names_are_completed(cli: Cli, nats: Nats, orders: Channel) -> None:
    words = f"headrace peek --nats {cli.nats} {orders.namespace}/"

    assert orders.path[1:] in _completed(words)
    assert _completed("headrace peek --nats nats://127.0.0.1:1 a") == set()


def _completed(words: str) -> set[str]:
    asked = {"_HEADRACE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = subprocess.run(
        [sys.executable, "-m", "headrace_cli"],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return {line.partition(",")[2] for line in done.stdout.splitlines() if line}

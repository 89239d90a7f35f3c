"""A value of thousands of characters where a word belongs: errors that quote it stay a few lines long."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headrace.core.delivery import lease
from headrace.core.errors import HeadraceError, InvalidSpec, Misconfigured, Refused, Unavailable
from headrace.core.manifest import manifest
from headrace.core.quoting import LONGEST_SENTENCE, bounded, quoted
from headrace_cli.laptop import file_channels
from tests.support.laptop.cli import run

HUGE = "x" * 3_000
ENDLESS = "x" * 200_000
# What fits on half a screen.
MOST = 1500

CHANNEL = {
    "apiVersion": "messaging.knative.dev/v1alpha1",
    "kind": "NatsJetStreamChannel",
    "metadata": {
        "name": "orders",
        "namespace": "shop",
        "uid": "u-1",
        "annotations": {"headrace.dev/max-scale": "2", "headrace.dev/delivery-order": "ordered"},
    },
    "spec": {
        "stream": {"overrideName": "O", "config": {"maxAge": "1h", "storage": "File", "maxMsgs": 1, "tags": ["a"]}},
        "consumerConfigTemplate": {"deliverPolicy": "All", "rateLimitBPS": 1, "ackWait": "1s"},
        "delivery": {"retry": 1, "backoffDelay": "PT1S", "timeout": "PT1S", "backoffPolicy": "linear"},
    },
}
SUBSCRIPTION = {
    "apiVersion": "messaging.knative.dev/v1",
    "kind": "Subscription",
    "metadata": {"name": "billing", "namespace": "shop", "annotations": {"headrace.dev/lag-threshold": "1"}},
    "spec": {
        "channel": {"apiVersion": "messaging.knative.dev/v1alpha1", "kind": "NatsJetStreamChannel", "name": "orders"},
        "subscriber": {"uri": "http://billing/"},
        "reply": {"ref": {"apiVersion": "messaging.knative.dev/v1", "kind": "Channel", "name": "orders"}},
        "delivery": {"retry": 1, "backoffDelay": "PT1S", "deadLetterSink": {"uri": "http://sink/"}},
    },
}


def grown(value: Any) -> Iterator[Any]:
    """The value with each of its leaves in turn, and each of its keys, replaced by a huge one."""
    children: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        children = list(value.items())
        for key in value:
            yield {(HUGE if name == key else name): each for name, each in value.items()}
    elif isinstance(value, list):
        children = list(enumerate(value))
    else:
        yield from (HUGE, [HUGE], {HUGE: HUGE}, {"a": HUGE}, 10**4000, f"\x1b{HUGE}", f"http://{HUGE}/")
    for place, child in children:
        for bad in grown(child):
            other = copy.copy(value)
            other[place] = bad
            yield other


def said(read: Callable[[], object]) -> list[str]:
    """The words and the field of its InvalidSpec; nothing without one."""
    try:
        read()
    except InvalidSpec as error:
        return [str(error), error.field]
    return []


@pytest.mark.parametrize(("value", "is_"), [("a'b", '"a\'b"'), (7, "7"), (None, "None"), ("\x1b[2J", "'\\x1b[2J'")])
def test_a_short_value_is_quoted_as_it_is(value: object, is_: str) -> None:
    assert quoted(value) == is_


@pytest.mark.parametrize(
    "value", [HUGE, [HUGE], {HUGE: 1}, 10**4000, HUGE.encode()], ids=lambda value: type(value).__name__
)
def test_a_huge_value_is_cut(value: object) -> None:
    assert len(quoted(value)) <= 62
    assert "..." in quoted(value)


def test_of_an_endless_sentence_the_middle_is_left_out() -> None:
    sentence = bounded(f"spec.x is {ENDLESS}: give a number")
    assert sentence.startswith("spec.x is x")
    assert sentence.endswith("x: give a number")
    assert len(sentence) < LONGEST_SENTENCE + 100
    assert bounded("spec.x is 1: give 2") == "spec.x is 1: give 2"


@pytest.mark.parametrize(
    "error",
    [
        InvalidSpec(ENDLESS, field="f"),
        Refused(ENDLESS, status=403),
        Unavailable(ENDLESS),
        Misconfigured(ENDLESS, field="f"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_no_error_of_ours_is_longer_than_anybody_reads(error: HeadraceError) -> None:
    assert len(str(error)) < LONGEST_SENTENCE + 100


@pytest.mark.parametrize("which", ["channel", "subscription"])
def test_whatever_is_huge_in_a_manifest_is_told_briefly_by_up(tmp_path: Path, which: str) -> None:
    file, told = tmp_path / "all.json", 0
    for bad in grown(CHANNEL if which == "channel" else SUBSCRIPTION):
        items = [bad, SUBSCRIPTION] if which == "channel" else [CHANNEL, bad]
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        try:
            words = file_channels.load([str(file)], "http://localhost:8080").ignored
        except InvalidSpec as error:
            words = (str(error),)
        told += bool(words)
        assert [word[:MOST] for word in words if len(word) > MOST] == []
    assert told > 40


def test_whatever_is_huge_in_a_channel_is_told_briefly_in_a_condition() -> None:
    told = [words for bad in grown(CHANNEL) for words in said(partial(manifest.parse, bad))]
    assert [words[:MOST] for words in told if len(words) > MOST] == []
    assert len(told) > 80


def test_whatever_is_huge_in_a_lease_is_told_briefly() -> None:
    leases = grown({"stream": "S", "consumer": "C", "seconds": 1, "max_in_flight": 2})
    read = partial(lease.parse_request, max_in_flight=1, max_bytes=1)
    told = [words for bad in leases for words in said(partial(read, json.dumps(bad).encode()))]
    assert [words[:MOST] for words in told if len(words) > MOST] == []
    assert len(told) > 20


@pytest.mark.parametrize(
    "command",
    [
        ("check", "--lag-warning", ENDLESS),
        ("channel", "create", "orders", "--max-msgs", ENDLESS),
        ("channel", "list", "--nats", f"nats://{ENDLESS}:1:2"),
        ("channel", "list", "-o", ENDLESS),
        ("channel", ENDLESS),
        (f"--{ENDLESS}",),
        ("up", "-f", "/dev/null", "--listen", ENDLESS),
    ],
    ids=lambda command: " ".join(word[:20] for word in command),
)
def test_whatever_is_huge_in_a_command_is_told_briefly(command: tuple[str, ...]) -> None:
    ran = run(*command)
    assert ran.status == 2, ran.err[:MOST]
    assert 0 < len(ran.err) < LONGEST_SENTENCE + 500

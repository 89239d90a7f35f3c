"""A manifest that fits into Kubernetes and would swell in NATS, where each consumer has a copy of it."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.channel.desired import desired
from headrace.core.errors import InvalidSpec
from headrace.core.installation.reconcile_settings import ReconcileSettings
from tests.support.functions.channels import channel, entry, stream

KIB = {f"k{index:02}": "v" * 1024 for index in range(64)}
LONG = [f"shop.{index}." + "s" * 240 for index in range(100)]
CHAIN = "-----BEGIN CERTIFICATE-----\n" + "A" * 64 * 1024
SINK = {"deadLetterSink": {"uri": "https://sink.shop.svc/", "CACerts": CHAIN}}


def refused(*entries: dict[str, Any], **spec: Any) -> str:
    found = desired(channel(*entries, **spec), ReconcileSettings())
    return str(found) if isinstance(found, InvalidSpec) else ""


def crowd(count: int) -> list[dict[str, Any]]:
    return [entry(f"uid-{index}", f"s{index}") for index in range(count)]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"consumerConfigTemplate": {"metadata": KIB}}, id="metadata"),
        pytest.param({"consumerConfigTemplate": {"metadata": {"k" * 65536: ""}}}, id="a long key"),
        pytest.param(
            {"consumerConfigTemplate": {"filterSubjects": LONG}},
            id="filters",
        ),
        pytest.param({"delivery": SINK}, id="the certificates of the channel's sink"),
        pytest.param(
            {
                "stream": {"overrideName": "LEGACY", "config": {"additionalSubjects": LONG}},
            },
            id="subjects of an adopted stream",
        ),
    ],
)
def test_what_each_consumer_has_a_copy_of_is_bounded_for_all_of_them_together(spec: dict[str, Any]) -> None:
    assert refused(*crowd(50), **spec) == ""

    told = refused(*crowd(400), **spec)

    assert told.startswith("spec.consumerConfigTemplate and spec.delivery have ")
    assert "bytes in the 400 consumers of this channel, and 8388608 are the most: shorten metadata" in told


def test_a_stream_is_bounded_since_all_streams_are_listed_together() -> None:
    assert refused(stream=stream(additionalSubjects=LONG)) == ""

    for config in ({"additionalSubjects": [*LONG, *(f"{one}.x" for one in LONG)]}, {"metadata": KIB}):
        told = refused(stream=stream(**config))
        assert told.startswith("spec.stream.config has ")
        assert "bytes in NATS, and 32768 are the most: shorten metadata, or name fewer subjects and sources" in told


def test_thousands_of_subscribers_with_usual_settings_are_no_burden() -> None:
    template = {"metadata": {"team": "billing"}, "filterSubjects": ["shop.orders._knative"]}
    assert refused(*crowd(8_000), consumerConfigTemplate=template, delivery={"retry": 5}) == ""

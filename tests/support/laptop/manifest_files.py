"""Manifest documents, and how `headrace up` reads them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

from headrace_cli.laptop import file_channels
from headrace_cli.laptop.file_channels import FileChannels

BASE = "http://127.0.0.1:8080"

CHANNEL = """
apiVersion: messaging.knative.dev/v1alpha1
kind: NatsJetStreamChannel
metadata: {name: orders}
"""

SUBSCRIPTION = """
apiVersion: messaging.knative.dev/v1
kind: Subscription
metadata: {name: billing}
spec:
  channel: {apiVersion: messaging.knative.dev/v1alpha1, kind: NatsJetStreamChannel, name: orders}
  subscriber: {uri: "http://billing.example/events"}
"""

Read = Callable[..., FileChannels]


def reader(directory: Path) -> Read:
    """Reads documents that were written to one file, `all.yaml`."""

    def read(*documents: str) -> FileChannels:
        file = directory / "all.yaml"
        file.write_text("---\n".join(dedent(document) for document in documents))
        return file_channels.load([str(file)], BASE)

    return read


def subscription(**spec: str) -> str:
    """A Subscription to `orders` with other lines in its spec."""
    lines = "".join(f"  {name}: {value}\n" for name, value in spec.items())
    return SUBSCRIPTION.replace('  subscriber: {uri: "http://billing.example/events"}\n', lines)

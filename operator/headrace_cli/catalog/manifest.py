"""The manifest of a channel from what somebody has typed. Pure."""

from __future__ import annotations

from typing import Any

from headrace.core import manifest
from headrace.core.errors import InvalidSpec, Misconfigured
from headrace_cli.catalog.names import Ref
from headrace_cli.cluster.objects import CHANNEL_KIND, CHANNEL_VERSION
from headrace_cli.commands.params import Given

# Option to member of spec.stream.config.
MEMBERS = {
    "retention": "retention",
    "storage": "storage",
    "discard": "discard",
    "replicas": "replicas",
    "max_age": "maxAge",
    "max_bytes": "maxBytes",
    "max_messages": "maxMsgs",
    "duplicate_window": "duplicateWindow",
}


def of_channel(ref: Ref, given: Given) -> dict[str, Any]:
    """The object, checked as `reconcile` would.

    Raises:
        Misconfigured: a value, or what they make together, is not possible.
    """
    stream: dict[str, Any] = {
        member: given[option] for option, member in MEMBERS.items() if given.get(option) is not None
    }
    wanted: dict[str, Any] = {"overrideName": given["stream"]} if given.get("stream") else {}
    if stream:
        wanted["config"] = stream
    metadata: dict[str, Any] = {"name": ref.name, "namespace": ref.namespace}
    if given.get("annotations"):
        metadata["annotations"] = dict(given["annotations"])
    spec = {"stream": wanted} if wanted else {}
    body = {"apiVersion": CHANNEL_VERSION, "kind": CHANNEL_KIND, "metadata": metadata, "spec": spec}
    try:
        manifest.parse({**body, "metadata": {**metadata, "uid": "none-yet", "generation": 1}})
    except InvalidSpec as error:
        raise Misconfigured(f"{error.field}: {error}", field=error.field) from None
    return body

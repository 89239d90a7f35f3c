"""What to say of a manifest's field that does not exist where it stands: what was meant, and where it belongs.

This module knows which fields Knative has had elsewhere, and which it has that a laptop does not serve. It knows shapes
as pydantic models only. `headrace_cli.manifests.kinds` calls it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from headrace.core.quoting import cut

# Names that many objects have: in another place they mean something else.
_EVERYWHERE = frozenset(("name", "namespace", "kind", "apiVersion", "uri", "ref", "metadata", "config", "spec"))
# A foreign kind may have any number of fields.
_LONGEST = 80
_MOST_KNOWN = 12
_INDEX = re.compile(r"\[\d+\]")

_REF = "write {parent}.ref: {{apiVersion: …, kind: …, name: …}}"
_ELSEWHERE: Mapping[str, str] = {
    "spec.channel.group": "is Knative's, and not served on a laptop: give apiVersion",
    "spec.channel.address": "is Knative's, and not served on a laptop, where a channel has one address: take it out",
    "spec.reply.channel": "was Knative's before messaging.knative.dev/v1: " + _REF,
    "spec.reply.dnsName": "was Knative's before messaging.knative.dev/v1: write spec.reply.uri",
    "spec.subscriber.dnsName": "was Knative's before messaging.knative.dev/v1: write spec.subscriber.uri",
    "spec.filter": "is a Trigger's: a Subscription gets all events of its channel, so take it out",
    "spec.filters": "is a Trigger's: a Subscription gets all events of its channel, so take it out",
    "spec.subscribable": "was Knative's before messaging.knative.dev/v1: write its subscribers as Subscriptions",
    "spec.numPartitions": "is a Kafka channel's: a stream has no partitions, so take it out",
    "spec.replicationFactor": "is a Kafka channel's: write spec.stream.config.replicas",
    "spec.retentionDuration": "is a Kafka channel's: write spec.stream.config.maxAge",
    "delivery.backoffMax": "is neither Knative's nor ours: waits grow by backoffPolicy without a bound of their own (a "
    "day at most); retryAfterMax is for what a Retry-After header asks",
}
"""The advice for a field, by its path or by the path's last two steps."""


def sentence(field: str, root: type[BaseModel], start: str) -> str:
    """The sentence about a field that its object does not have.

    Args:
        field: its path.
        root: the model of the object at `start`, to which the field belongs.
    """
    plain, name = _INDEX.sub("", field), field.rpartition(".")[2]
    parent = plain.rpartition(".")[0]
    elsewhere = _ELSEWHERE.get(plain) or _ELSEWHERE.get(".".join(plain.split(".")[-2:]))
    if elsewhere is not None:
        return f"{field} {elsewhere.format(parent=parent)}"
    paths = list(_paths(root, start))
    known = [path.rpartition(".")[2] for path in paths if path.rpartition(".")[0] == parent]
    return f"{cut(field, 4 * _LONGEST)} is no field that is known here: {_hint(name, parent, known, paths)}"


def near(name: str, known: list[str]) -> str:
    """The advice on a name that is none of these; empty when none is near."""
    found = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {found[0]}?" if found else ""


def _hint(name: str, parent: str, known: list[str], paths: list[str]) -> str:
    elsewhere = [path for path in paths if path.rpartition(".")[2] == name]
    below = [path for path in elsewhere if path.startswith(f"{parent}.")]
    meant = below or ([] if name in _EVERYWHERE else elsewhere)
    if meant:
        # The list of subscribers comes last: Subscriptions fill it, and people do not.
        best = min(meant, key=lambda path: (".subscribers." in path, -_shared(path, parent), len(path)))
        return f"it belongs into {best.rpartition('.')[0]}, so write {best}"
    listed = ", ".join(known[:_MOST_KNOWN]) + (", …" if len(known) > _MOST_KNOWN else "")
    return near(name, known) or f"take it out; {parent} has {listed}"


def _shared(one: str, other: str) -> int:
    """How many steps two paths have in common."""
    steps = zip(one.split("."), other.split("."), strict=False)
    return next((number for number, (mine, others) in enumerate(steps) if mine != others), other.count(".") + 1)


def _paths(model: type[BaseModel], start: str) -> Iterator[str]:
    """The path of each field of a model, and of the models in it."""
    for name, field in model.model_fields.items():
        path = f"{start}.{field.alias or name}"
        yield path
        if (inner := model_in(field.annotation)) is not None:
            yield from _paths(inner, path)


def model_in(annotation: Any) -> type[BaseModel] | None:
    """The model that a field holds: directly, as an option or in a list."""
    parts = (annotation, *getattr(annotation, "__args__", ()))
    return next((part for part in parts if isinstance(part, type) and issubclass(part, BaseModel)), None)

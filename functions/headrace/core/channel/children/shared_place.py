"""An author's wishes for pods that run in a namespace of others: resources within bounds, and what is opened.

A label there could make the pods part of somebody's Service, a priority could drive others' pods off a node, and a pull
secret is somebody's Secret. The wishes that the administrator's own defaults have are obeyed. Pure; called by
`headrace.core.channel.children.site`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.core.channel.child_marks import COMPONENT_LABEL, MANAGED_BY, NAME_LABEL
from headrace.core.channel.children.pod import DEFAULT_RESOURCES
from headrace.core.delivery import placement_spec
from headrace.core.installation.function_bounds import TEMPLATE_FIELDS, FunctionBounds, number, opens
from headrace.core.manifest.manifest import Manifest
from headrace.core.quoting import quoted

Wishes = Mapping[str, Any]
"""A `deploymentSpecTemplate`, as its author wrote it."""
PATH = "spec.deploymentSpecTemplate"
_OURS = (NAME_LABEL, COMPONENT_LABEL, MANAGED_BY)
# By labels with these prefixes Knative's own Services and controllers know their pods.
_KNATIVES = ("serving.knative.dev/", "networking.internal.knative.dev/", "eventing.knative.dev/")


@dataclass(frozen=True, slots=True)
class Obeyed:
    """The wishes that are obeyed, and a sentence about each that is not."""

    wishes: dict[str, Any] = field(default_factory=dict)
    refused: tuple[str, ...] = ()


def template_of(channel: Manifest | None) -> dict[str, Any]:
    """The channel's template, as its author wrote it."""
    written = channel.spec.deployment_spec_template if channel is not None else None
    return {} if written is None else written.model_dump(by_alias=True, exclude_unset=True, mode="json")


def own(author: Wishes) -> Obeyed:
    """The wishes for the channel's own namespace: all, but for the keys that we set."""
    return _without(author, lambda key: key in _OURS or key.startswith("headrace.dev/"), "the key is Headrace's own")


def bounded(author: Wishes, bounds: FunctionBounds, given: Wishes, place: str) -> Obeyed:
    """The wishes for a namespace of others.

    Args:
        given: the wishes that the administrator's defaults have by themselves.
        place: that namespace.
    """
    scope = f"the annotation {placement_spec.SCOPE}: namespace has them run in the channel's own"
    kept: dict[str, Any] = {}
    refused: list[str] = []
    for name in TEMPLATE_FIELDS:
        value, default = author.get(name), given.get(name)
        if not value or value == default or name in bounds.template:
            kept[name] = value
            continue
        kept[name] = default
        why = f"the functions run in namespace {place}, which is not the channel's, and take only resources there"
        refused.append(f"{PATH}.{name} is {quoted(value)}: {why}: {scope}, {opens(f'template: [{name}]')}")
    resources = author.get("resources") or {}
    if resources and resources != given.get("resources"):
        refused += _beyond(resources, bounds.resources)
        resources = _within(resources, bounds.resources)
    kept["resources"] = resources
    ours = own({name: value for name, value in kept.items() if value})
    free = _without(ours.wishes, lambda key: key.startswith(_KNATIVES), "Knative knows its own pods by that key")
    return Obeyed(free.wishes, (*refused, *ours.refused, *free.refused))


def _without(wishes: Wishes, refuses: Callable[[str], bool], why: str) -> Obeyed:
    """The wishes without some labels and annotations."""
    kept, refused = dict(wishes), []
    for part in ("labels", "annotations"):
        texts = wishes.get(part) or {}
        bad = sorted(filter(refuses, texts))
        refused += [f"{PATH}.{part}[{key}] is {quoted(texts[key])}: {why}" for key in bad]
        if bad:
            kept[part] = {key: text for key, text in texts.items() if key not in bad}
    return Obeyed({name: value for name, value in kept.items() if value}, tuple(refused))


def _within(resources: Mapping[str, Mapping[str, Any]], most: Mapping[str, str | int]) -> dict[str, Any]:
    """A limit for every resource that may be asked for, since a container without one could take a node; requests
    below it. To the kubelet, 0 is no limit."""
    asked = {name: one for name, one in (resources.get("limits") or {}).items() if number(one) > 0}
    requests = {name: one for name, one in (resources.get("requests") or {}).items() if number(one) >= 0}
    usual = DEFAULT_RESOURCES["limits"]
    limits: dict[str, Any] = {}
    for name, bound in most.items():
        # Who asks for more than the usual limit, and names no limit, is given that much.
        wanted = [asked[name]] if name in asked else [one[name] for one in (usual, requests) if name in one]
        if wanted:
            limits[name] = min(max(wanted, key=number), bound, key=number)
    below = {name: min(quantity, limits[name], key=number) for name, quantity in requests.items() if name in limits}
    return {"limits": limits, **({"requests": below} if below else {})}


def _beyond(resources: Mapping[str, Mapping[str, Any]], most: Mapping[str, str | int]) -> Iterator[str]:
    for part in ("limits", "requests"):
        for name, quantity in (resources.get(part) or {}).items():
            field = f"{PATH}.resources.{part}[{name}]"
            if name not in most:
                yield f"{field} is {quoted(quantity)}: only {' and '.join(most)} can be asked for here"
            elif number(quantity) < 0 or (part == "limits" and number(quantity) == 0):
                yield f"{field} is {quoted(quantity)}: the usual one is taken, since that is no limit for a container"
            elif number(quantity) > number(most[name]):
                yield f"{field} is {quoted(quantity)}: at most {most[name]}, {opens(f'resources: {{{name}: …}}')}"

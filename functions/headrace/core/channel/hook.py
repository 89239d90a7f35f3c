"""Request and response of the hook that `reconcile` serves: Metacontroller's CompositeController, as far as it is used.

Knows the envelope only; what is in `parent` is `headrace.core.manifest.manifest`'s. Our operator and a stock
Metacontroller speak it alike, but for the extension `headrace`, which the latter neither sends nor reads (ADR 023).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NoReturn

from headrace.core.errors import InvalidSpec, Refused
from headrace.core.quoting import quoted

KIND = "NatsJetStreamChannel"
PARENT_ANNOTATIONS = {"messaging.knative.dev/subscribable": "v1"}
"""What each channel should bear: whoever subscribes reads off it in which form. Source: Knative's Channel Spec."""
MOST_VALUES = 2_000_000
"""Of a request, roughly: parsed, a value takes up to thirty times as many bytes as it has in the body.

A channel is at most 1.5 MiB in Kubernetes, which is some 3,000 subscribers; each has 250 values in a call with all its
objects, and 400 where their managedFields are sent along, as by a stock Metacontroller.
"""


@dataclass(frozen=True, slots=True)
class HookRequest:
    """What was observed.

    Attributes:
        parent: the channel, as the API server has it.
        children, related: by `Kind.apiVersion`, then by name; empty ones are present.
        finalizing: the channel is being deleted.
        complete: the kinds, as in `related`, of which that holds every object of the cluster. Of others nothing
            follows from an object's not being there.
        absent: the uids, of those that the last answer asked to `verify`, that the API server itself does not have.
        unserved: the kinds, as in `related`, that were asked for and that the cluster does not serve.
        unseen: objects that were asked for by name and could not be looked for, as `ConfigMap.v1/NAMESPACE/NAME`.
        ending: the channel's namespace is being deleted: what it needs there can't be made again.
        apis: which of the optional APIs the cluster serves, as `serving.knative.dev/v1`; None when nobody says.
        shared: as `children`, those that several channels share and this one may: whoever owns them. None when nobody
            says.
        watched: the only namespace of which all this is told; empty: of all of them.
        stock: a Metacontroller as it comes asks, not our operator. It makes children in the channel's own namespace and
            for that one channel only, of the kinds that its CompositeController names (`apis`); and it opens no leases.
    """

    parent: dict[str, Any]
    children: dict[str, Any] = field(default_factory=dict)
    related: dict[str, Any] = field(default_factory=dict)
    finalizing: bool = False
    complete: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()
    unserved: frozenset[str] = frozenset()
    unseen: frozenset[str] = frozenset()
    ending: bool = False
    apis: frozenset[str] | None = None
    shared: dict[str, Any] | None = None
    watched: str = ""
    stock: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """A Kubernetes Event on the channel, which our operator is asked to create; `type` is Normal or Warning."""

    type: str
    reason: str
    message: str

    def to_json(self) -> dict[str, str]:
        """As the answer writes it."""
        return {"type": self.type, "reason": self.reason, "message": self.message}


@dataclass(frozen=True, slots=True)
class Reference:
    """One object of the cluster, of which it is to be asked whether it still exists with this uid."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    def to_json(self) -> dict[str, str]:
        """As the answer writes it."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
        }


@dataclass(frozen=True, slots=True)
class Installation:
    """With which settings a process of `reconcile` answers: they decide what a channel's children are made of.

    While one is being replaced by another, both answer; of two that differ the one that was started later counts.

    Attributes:
        digest: of the settings; empty for a `reconcile` that does not say.
        since: when the process was started, in seconds since the epoch.
    """

    digest: str = ""
    since: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """As the answer writes it."""
        return {"digest": self.digest, "since": self.since}


def installation(extension: Mapping[str, Any]) -> Installation:
    """Read it from the member `headrace` of an answer.

    Raises:
        ValueError, TypeError, AttributeError: it is not of this form.
    """
    told = extension.get("installation") or {}
    return Installation(str(told.get("digest") or ""), float(told.get("since") or 0.0))


@dataclass(frozen=True, slots=True)
class HookResponse:
    """What is desired, and what was seen.

    Attributes:
        status: of the channel; None leaves it as it is.
        resync_after_seconds: ask again then; zero: when something changes.
        finalized: the channel may go; only an answer to finalize has it.
        verify: to be looked up at the API server itself, without a cache. Those that are not there belong into
            `absent` of a call that follows at once; when all are there, the next call is the one of the resync.
        events: told with this answer, and not again.
        prune: uids of `spec.subscribers` to take out, if that list has not changed since.
        installation: who has answered.
    """

    status: dict[str, Any] | None
    children: tuple[dict[str, Any], ...] = ()
    resync_after_seconds: float = 0
    finalized: bool | None = None
    verify: tuple[Reference, ...] = ()
    prune: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()
    installation: Installation | None = None

    def to_json(self) -> dict[str, Any]:
        """The body of the answer."""
        body: dict[str, Any] = {
            "status": self.status,
            "children": list(self.children),
            "resyncAfterSeconds": self.resync_after_seconds,
        }
        if self.finalized is not None:
            body["finalized"] = self.finalized
        extension: dict[str, Any] = {}
        if self.verify:
            extension["verify"] = [each.to_json() for each in self.verify]
        if self.prune:
            extension["prune"] = list(self.prune)
        if self.events:
            extension["events"] = [each.to_json() for each in self.events]
        if self.installation is not None:
            extension["installation"] = self.installation.to_json()
        if extension:
            body["headrace"] = extension
        return body


def customized(rules: Sequence[Mapping[str, Any]], *, stock: bool) -> dict[str, Any]:
    """The body of the answer to `customize`: what is to be observed, and what the channel is to be annotated with.

    A stock Metacontroller writes nothing of a parent but its status.
    """
    body: dict[str, Any] = {"relatedResources": list(rules)}
    return body if stock else {**body, "headrace": {"annotations": PARENT_ANNOTATIONS}}


def parse(body: bytes) -> HookRequest:
    """Read a request.

    Raises:
        InvalidSpec: with the field `body`; it is not the hook's form.
        Refused: it would take more memory than any channel needs.
    """
    # Those inside of texts, too.
    if sum(map(body.count, (b",", b"[", b"{"))) > MOST_VALUES:
        words = f"the body holds more than {MOST_VALUES} values: no channel and its objects have so many"
        raise Refused(f"{words}; look for an object that somebody has filled", status=413)
    try:
        request = json.loads(body, parse_constant=_no_number, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise InvalidSpec(f"body is not JSON ({error}): send what Metacontroller sends", field="body") from None
    parent = _object(_object(request, "body"), "body.parent", request_key="parent")
    if parent.get("kind", KIND) != KIND:
        raise InvalidSpec(f"body.parent.kind is {quoted(str(parent['kind']))}: only {KIND} is known here", field="body")
    metadata = _object(parent, "body.parent.metadata", request_key="metadata")
    for key in ("namespace", "name"):
        if not isinstance(metadata.get(key), str):
            given = quoted(str(metadata.get(key)))
            raise InvalidSpec(f"body.parent.metadata.{key} is {given}: give it as text", field="body")
    extension = _observed(request, "headrace")
    controller = request.get("controller")
    # Our operator sends an empty one.
    stock = isinstance(controller, dict) and bool(controller)
    apis = _words(extension, "apis") if isinstance(extension.get("apis"), list) else None
    return HookRequest(
        parent=parent,
        children=_observed(request, "children"),
        related=_observed(request, "related"),
        finalizing=request.get("finalizing") is True,
        complete=_words(extension, "complete"),
        absent=_words(extension, "absent"),
        unserved=_words(extension, "unserved"),
        unseen=_words(extension, "unseen"),
        ending=extension.get("ending") is True,
        apis=_child_apis(controller) if stock else apis,
        watched=extension["watched"] if isinstance(extension.get("watched"), str) else "",
        shared=extension["shared"] if isinstance(extension.get("shared"), dict) else None,
        stock=stock,
    )


def _finite(text: str) -> float:
    number = float(text)
    return number if isfinite(number) else _no_number(text)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text[:20]} is no number that JSON can tell")


def _observed(request: dict[str, Any], key: str) -> dict[str, Any]:
    """Children or related objects; null and nothing at all are none."""
    return _object(request.get(key) or {}, f"body.{key}")


def _child_apis(controller: dict[str, Any]) -> frozenset[str]:
    """The APIs of the `childResources` of a CompositeController; what makes no sense there says nothing."""
    spec = controller.get("spec")
    rules = spec.get("childResources") if isinstance(spec, dict) else None
    named = [rule.get("apiVersion") for rule in rules if isinstance(rule, dict)] if isinstance(rules, list) else []
    return frozenset(each for each in named if isinstance(each, str))


def _words(extension: dict[str, Any], key: str) -> frozenset[str]:
    """A list of words; what else is in it says nothing."""
    found = extension.get(key)
    return frozenset(word for word in found if isinstance(word, str)) if isinstance(found, list) else frozenset()


def _object(value: Any, path: str, *, request_key: str | None = None) -> dict[str, Any]:
    found = value if request_key is None else value.get(request_key)
    if not isinstance(found, dict):
        raise InvalidSpec(f"{path} is not an object: send what Metacontroller sends", field="body")
    return found

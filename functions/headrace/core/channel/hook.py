"""The hook that `reconcile` serves: its requests and its answers, written and read here by both sides.

It is the hook of Metacontroller's CompositeController, as far as we use it. The operator and the CLI write requests and
read answers, `reconcile` the other way round. A stock Metacontroller sends no extension `headrace` and reads none
(ADR 023). This module knows the envelope only: the content of `parent` is `headrace.core.manifest.manifest`'s.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from math import isfinite
from typing import Any, NoReturn, Self

from headrace.core import json_text
from headrace.core.channel.guests import Guests
from headrace.core.channel.lease_places import LeasePlaces
from headrace.core.errors import InvalidSpec, Refused
from headrace.core.manifest.own_address import API_VERSION, KIND
from headrace.core.quoting import quoted

SERVING_API, KEDA_API, CERT_MANAGER_API = "serving.knative.dev/v1", "keda.sh/v1alpha1", "cert-manager.io/v1"
"""The optional APIs: a cluster may serve them, and children may be of their kinds."""
EXTENSION = "headrace"
"""The member that only our operator and `reconcile` write and read."""
_encode = partial(json.dumps, allow_nan=False)
_WORDS = ("complete", "absent", "unserved", "unseen")
"""The members of a request's extension that are sets of words."""
MOST_VALUES = 2_000_000
"""Values in a request, roughly: parsed, a value takes up to thirty times as many bytes as it has in the body.

A channel is at most 1.5 MiB in Kubernetes, which is some 3,000 subscribers; each has 250 values in a call with all its
objects, and 400 where their managedFields are sent along, as by a stock Metacontroller.
"""


@dataclass(frozen=True, slots=True)
class HookRequest:
    """The observed objects.

    Attributes:
        parent: the channel, as the API server has it.
        children, related: objects by `Kind.apiVersion`, then by name, with `NAMESPACE/` before the name of one that is
            not in the channel's namespace. A kind of which there is none may be present and empty.
        finalizing: the channel is being deleted.
        complete: the kinds of which `related` holds every object of the cluster. A missing object of another kind
            proves nothing.
        absent: the uids, among those that the last answer asked to `verify`, that the API server itself does not have.
        unserved: the kinds that were asked for and that the cluster does not serve, as `related` writes them.
        unseen: objects that were asked for by name and could not be looked for, as `ConfigMap.v1/NAMESPACE/NAME`.
        ending: the channel's namespace is being deleted: objects that it needs there can't be made again.
        apis: which of the optional APIs the cluster serves; None for a request that does not say.
        shared: the children that several channels share, whatever owns them, written as `children`; None for a request
            that does not say.
        watched: the one namespace that the operator watches; empty when it watches all of them.
        lacking: the namespaces in which the operator lacked a right for the channel's children, and its account there.
        guests: the functions of other channels of the channel's namespace, by the other namespace where they are.
        tokens: why the operator has no tokens for a consumer, by its name; None for a caller that makes none.
        stock: a stock Metacontroller asks, not our operator. It makes children in the channel's own namespace and for
            that one channel only, of the kinds that its CompositeController names (`apis`); and it opens no leases.
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
    lacking: dict[str, str] = field(default_factory=dict)
    guests: dict[str, Guests] = field(default_factory=dict)
    tokens: dict[str, str] | None = None
    stock: bool = False

    def to_json(self, related: bytes | None = None) -> bytes:
        """The body of a request as our operator sends it: never that of a stock Metacontroller.

        Args:
            related: `related` as JSON already: the operator keeps thousands of objects in that form, the same for all
                channels.

        Raises:
            InvalidSpec: with the field `parent`; the channel holds a value that JSON can't hold, or holds itself.
        """
        extension: dict[str, Any] = {name: sorted(getattr(self, name)) for name in _WORDS}
        extension |= {"ending": self.ending, "watched": self.watched}
        extension |= {"lacking": self.lacking} if self.lacking else {}
        extension |= {"guests": {place: one.to_json() for place, one in self.guests.items()}} if self.guests else {}
        known = {"tokens": self.tokens, "apis": None if self.apis is None else sorted(self.apis), "shared": self.shared}
        extension |= {name: value for name, value in known.items() if value is not None}
        body = {"controller": {}, "parent": self.parent, "children": self.children, "finalizing": self.finalizing}
        try:
            # The pieces are objects: there are thousands of them.
            text = json_text.in_pieces({**body, EXTENSION: extension}, 3, _encode).encode()
            observed = json_text.in_pieces(self.related, 2, _encode).encode() if related is None else related
        except (ValueError, TypeError, RecursionError) as error:
            raise InvalidSpec(f"the object can't be written as JSON: {error}", field="parent") from error
        return text[:-1] + b',"related":' + observed + b"}"

    @classmethod
    def from_json(cls, body: bytes) -> Self:
        """Read a request.

        Raises:
            InvalidSpec: with the field `body`; it is not the hook's form.
            Refused: it would take more memory than any channel needs.
        """
        request = _loaded(body)
        parent = _object(request.get("parent"), "body.parent")
        for key, known in (("apiVersion", API_VERSION), ("kind", KIND)):
            if parent.get(key, known) != known:
                given = quoted(str(parent[key]))
                raise InvalidSpec(f"body.parent.{key} is {given}: only {known} is known here", field="body")
        metadata = _object(parent.get("metadata"), "body.parent.metadata")
        for key in ("namespace", "name"):
            if not isinstance(metadata.get(key), str):
                given = quoted(str(metadata.get(key)))
                raise InvalidSpec(f"body.parent.metadata.{key} is {given}: give it as text", field="body")
        extension = _observed(request, EXTENSION)
        # Our operator sends an empty one.
        controller = request.get("controller")
        controller = controller if isinstance(controller, dict) else {}
        apis = _words(extension, "apis") if isinstance(extension.get("apis"), list) else None
        return cls(
            parent=parent,
            children=_observed(request, "children"),
            related=_observed(request, "related"),
            finalizing=request.get("finalizing") is True,
            **{name: _words(extension, name) for name in _WORDS},
            ending=extension.get("ending") is True,
            apis=_child_apis(controller) if controller else apis,
            watched=extension["watched"] if isinstance(extension.get("watched"), str) else "",
            lacking=_texts(extension, "lacking"),
            guests={place: Guests.from_json(one) for place, one in _observed(extension, "guests").items()},
            tokens=_texts(extension, "tokens") if "tokens" in extension else None,
            shared=extension["shared"] if isinstance(extension.get("shared"), dict) else None,
            stock=bool(controller),
        )


@dataclass(frozen=True, slots=True)
class KubeEvent:
    """A Kubernetes Event on the channel, which our operator is asked to create; `type` is Normal or Warning."""

    type: str
    reason: str
    message: str

    def to_json(self) -> dict[str, str]:
        return {"type": self.type, "reason": self.reason, "message": self.message}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        return cls(*(_text(body, key) for key in ("type", "reason", "message")))


@dataclass(frozen=True, slots=True)
class Reference:
    """One object of the cluster; the operator is asked whether it still exists with this uid."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    def to_json(self) -> dict[str, str]:
        names = {"kind": self.kind, "namespace": self.namespace, "name": self.name, "uid": self.uid}
        return {"apiVersion": self.api_version, **names}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        return cls(*(_text(body, key) for key in ("apiVersion", "kind", "namespace", "name", "uid")))


@dataclass(frozen=True, slots=True)
class Installation:
    """The settings of a process of `reconcile`: they decide how a channel's children are made.

    While one process is being replaced by another, both answer; if their settings differ, the one that was started
    later counts.

    Attributes:
        digest: of the settings; empty for a `reconcile` that tells none.
        since: when the process was started, in seconds since the epoch.
    """

    digest: str = ""
    since: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return {"digest": self.digest, "since": self.since}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        return cls(_text(body, "digest"), float(body.get("since") or 0.0))


@dataclass(frozen=True, slots=True)
class HookResponse:
    """The desired objects, and the observed status.

    Attributes:
        status: the channel's; None leaves it as it is.
        children: the objects that the channel is to have.
        resync_after_seconds: ask again then; zero: when something changes.
        finalized: the channel may go; only an answer to finalize has it.
        verify: objects to look up at the API server itself, without a cache. The uids of missing ones belong into
            `absent` of a call that follows at once; when all are there, the next call is the one of the resync.
        prune: uids to take out of `spec.subscribers`, if that list has not changed since.
        events: to be created with this answer, and not again.
        installation: the settings of the `reconcile` that answers; None for one that tells none.
        lease_places: None when they are not known now: then the last ones still count.
        security: what EventPolicies say of the channel, for its functions' security document; None: none applies.
    """

    status: dict[str, Any] | None = None
    children: tuple[dict[str, Any], ...] = ()
    resync_after_seconds: float = 0
    finalized: bool | None = None
    verify: tuple[Reference, ...] = ()
    prune: tuple[str, ...] = ()
    events: tuple[KubeEvent, ...] = ()
    installation: Installation | None = None
    lease_places: LeasePlaces | None = None
    security: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """The body of the answer; an empty extension is left out."""
        body: dict[str, Any] = {
            "status": self.status,
            "children": list(self.children),
            "resyncAfterSeconds": self.resync_after_seconds,
        }
        if self.finalized is not None:
            body["finalized"] = self.finalized
        extension = {
            "verify": [each.to_json() for each in self.verify],
            "prune": list(self.prune),
            "events": [each.to_json() for each in self.events],
            "installation": None if self.installation is None else self.installation.to_json(),
            "leasePlaces": None if self.lease_places is None else self.lease_places.to_json(),
            "security": self.security,
        }
        said = {name: value for name, value in extension.items() if value}
        return {**body, EXTENSION: said} if said else body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        """Read an answer, also one that leaves out empty members.

        Raises:
            ValueError, TypeError, AttributeError, KeyError: it is not of this form.
        """
        extension = body.get(EXTENSION) or {}
        status, finalized, told = body.get("status"), body.get("finalized"), extension.get("installation")
        places, security = extension.get("leasePlaces"), extension.get("security")
        return cls(
            status=None if status is None else dict(status),
            children=tuple(map(dict, body.get("children") or ())),
            resync_after_seconds=max(0.0, float(body.get("resyncAfterSeconds") or 0.0)),
            finalized=None if finalized is None else bool(finalized),
            verify=tuple(map(Reference.from_json, extension.get("verify") or ())),
            prune=tuple(map(str, extension.get("prune") or ())),
            events=tuple(map(KubeEvent.from_json, extension.get("events") or ())),
            installation=Installation.from_json(told) if told else None,
            lease_places=None if places is None else LeasePlaces.from_json(places),
            security=security and dict(security),
        )


def _loaded(body: bytes) -> dict[str, Any]:
    # Commas and brackets inside of texts are counted, too.
    if sum(map(body.count, (b",", b"[", b"{"))) > MOST_VALUES:
        words = f"the body holds more than {MOST_VALUES} values: no channel and its objects have so many"
        raise Refused(f"{words}; look for an object that somebody has filled", status=413)
    try:
        request = json.loads(body, parse_constant=_no_number, parse_float=_finite, object_hook=json_text.given)
    except (ValueError, RecursionError) as error:
        raise InvalidSpec(f"body is not JSON ({error}): send what Metacontroller sends", field="body") from None
    return _object(request, "body")


def _finite(text: str) -> float:
    number = float(text)
    return number if isfinite(number) else _no_number(text)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text[:20]} is no number that JSON can tell")


def _observed(request: dict[str, Any], key: str) -> dict[str, Any]:
    """Children or related objects; null or a missing member means none."""
    return _object(request.get(key) or {}, f"body.{key}")


def _texts(extension: dict[str, Any], key: str) -> dict[str, str]:
    return {name: text for name, text in _observed(extension, key).items() if isinstance(text, str)}


def _child_apis(controller: dict[str, Any]) -> frozenset[str]:
    """The APIs of the `childResources` of a CompositeController; entries that make no sense are passed over."""
    spec = controller.get("spec")
    rules = spec.get("childResources") if isinstance(spec, dict) else None
    named = [rule.get("apiVersion") for rule in rules if isinstance(rule, dict)] if isinstance(rules, list) else []
    return frozenset(each for each in named if isinstance(each, str))


def _words(extension: dict[str, Any], key: str) -> frozenset[str]:
    """A list of words; other entries are passed over."""
    found = extension.get(key)
    return frozenset(word for word in found if isinstance(word, str)) if isinstance(found, list) else frozenset()


def _object(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidSpec(f"{path} is not an object: send what Metacontroller sends", field="body")
    return value


def _text(body: Mapping[str, Any], key: str) -> str:
    return str(body.get(key) or "")

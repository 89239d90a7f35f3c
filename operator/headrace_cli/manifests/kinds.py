"""The shapes of what a manifest file may hold. They are strict, since on a laptop no API server refuses a typo.

This module knows fields and types, and says which one is wrong. It resolves nothing. Called by
`headrace_cli.laptop.file_channels` and `headrace_cli.laptop.resolver`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from headrace.core.manifest import delivery_spec, manifest
from headrace.core.manifest.field_words import as_written, path_of, refuse_bare_address, sentence
from headrace.core.manifest.own_address import KIND
from headrace.core.quoting import quoted
from headrace_cli.manifests import unknown_fields
from headrace_cli.manifests.documents import Document

CHANNEL_KINDS = (KIND, "Channel")
# The limit for the names of foreign kinds; names in Kubernetes are no longer.
LONGEST_NAME = 253
OBJECT = ["apiVersion", "kind", "metadata", "spec", "status"]
METADATA = [
    *("name", "namespace", "labels", "annotations", "finalizers", "ownerReferences", "generateName"),
    *("uid", "generation", "resourceVersion", "creationTimestamp", "deletionTimestamp", "managedFields", "selfLink"),
]
"""The members of an object and of its metadata."""

Parsed = TypeVar("Parsed", bound=BaseModel)


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", alias_generator=to_camel)

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, data: Any) -> Any:
        return {key: value for key, value in data.items() if value is not None} if isinstance(data, dict) else data


class ObjectRef(_Model):
    """An object whose address is to be taken."""

    api_version: str = ""
    kind: str
    name: str
    namespace: str = ""
    group: str = ""
    address: str = ""


class DestinationFields(_Model):
    """An address: a URI, or an object with a path below its own address."""

    ref: ObjectRef | None = None
    uri: str | None = None
    ca_certs: str | None = Field(None, alias="CACerts")
    audience: str | None = None

    _object = model_validator(mode="before")(refuse_bare_address)

    @model_validator(mode="after")
    def _leads_somewhere(self) -> DestinationFields:
        if self.ref is None and self.uri is None:
            raise PydanticCustomError("leads_nowhere", "it has neither a uri nor a ref: give one")
        return self

    def trust(self, *, prefix: str = "") -> dict[str, str]:
        """CA certificates and audience, by a sink's field names or, with a prefix, by a subscriber entry's."""
        named = {"CACerts": self.ca_certs, "audience": self.audience}
        return {
            f"{prefix}{name[0].upper() if prefix else name[0]}{name[1:]}": text for name, text in named.items() if text
        }


class Delivery(delivery_spec.DeliverySpec):
    """`delivery` of a channel or Subscription; durations and limits are `headrace.core.manifest.delivery_spec`'s."""

    model_config = ConfigDict(extra="forbid")

    dead_letter_sink: DestinationFields | None = None  # type: ignore[assignment]  # the same, more strictly


class ChannelRef(_Model):
    """The channel of a Subscription; on a laptop always one of its own namespace."""

    api_version: str = ""
    kind: str
    name: str
    namespace: str = ""


class SubscriptionSpec(_Model):
    """`spec` of a messaging.knative.dev/v1 Subscription."""

    channel: ChannelRef
    subscriber: DestinationFields | None = None
    reply: DestinationFields | None = None
    delivery: Delivery | None = None

    @model_validator(mode="after")
    def _has_a_subscriber(self) -> SubscriptionSpec:
        if self.subscriber is None and self.reply is None:
            raise PydanticCustomError("no_subscriber", "it has neither a subscriber nor a reply: give a subscriber")
        return self


class ChannelTemplate(_Model):
    """The kind and spec from which a generic Channel is made."""

    api_version: str = ""
    kind: str
    spec: dict[str, Any] = {}


def parse(document: Document, model: type[Parsed], raw: object, path: str) -> Parsed:
    """Read one part of a document.

    Raises:
        InvalidSpec: the message names file, document, the first wrong field below `path`, and its value.
    """
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    field = path_of(path, first["loc"])
    unknown = first["type"] == "extra_forbidden"
    words = unknown_fields.sentence(field, model, path) if unknown else sentence(field, first)
    raise document.fault(words, field=field)


def channel_spec(document: Document) -> dict[str, Any]:
    """The spec of a channel, its own or the template's of a generic one, still as it was written.

    Raises:
        InvalidSpec: the spec is no object, or the template is of another kind.
    """
    spec = document.body.get("spec") or {}
    if not isinstance(spec, dict):
        raise document.fault(f"spec is {as_written(spec)}: it should be an object", field="spec")
    spec = dict(spec)
    template = None if document.body["kind"] == KIND else spec.pop("channelTemplate", None)
    if template is None:
        return spec
    parsed = parse(document, ChannelTemplate, template, "spec.channelTemplate")
    if parsed.kind != KIND:
        problem = f"spec.channelTemplate.kind is {quoted(parsed.kind)}: only {KIND} is served"
        raise document.fault(problem, field="spec.channelTemplate.kind")
    return {**parsed.spec, **spec}


def refuse_typos(document: Document, spec: Mapping[str, Any]) -> None:
    """Refuse members that a channel's spec does not have: an API server would refuse them, or prune them in silence.

    Raises:
        InvalidSpec: the message names the first one.
    """
    for field in _unknown(manifest.Spec, spec, "spec"):
        raise document.fault(unknown_fields.sentence(field, manifest.Spec, "spec"), field=field)


def refuse_typos_around(document: Document) -> None:
    """Refuse the same in the object itself, and in its metadata a member whose name is nearly a known one.

    Raises:
        InvalidSpec: the message names the first one.
    """
    for path, known, part in (("", OBJECT, document.body), ("metadata.", METADATA, document.body.get("metadata"))):
        for name in part if isinstance(part, Mapping) else ():
            hint = "" if name in known else unknown_fields.near(str(name), known)
            if hint:
                field = f"{path}{name}"
                raise document.fault(f"{field} is no field that is known here: {hint}", field=field)


def _unknown(model: type[BaseModel], raw: object, path: str) -> Iterator[str]:
    if not isinstance(raw, Mapping):
        return
    fields = {str(field.alias or name): field for name, field in model.model_fields.items()}
    for name, value in raw.items():
        if name not in fields:
            yield f"{path}.{name}"
            continue
        inner = unknown_fields.model_in(fields[name].annotation)
        if inner is not None:
            items = enumerate(value) if isinstance(value, list) else [(None, value)]
            for index, item in items:
                yield from _unknown(inner, item, f"{path}.{name}" + ("" if index is None else f"[{index}]"))

"""The shapes of what a manifest file may hold, strictly: on a laptop no API server refuses a typo.

Knows fields and types, and says which is wrong. Resolves nothing. Called by `headrace_cli.manifests`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails, PydanticCustomError

from headrace.core import delivery_spec, manifest
from headrace.core.field_words import as_written, path_of, refuse_bare_address, sentence
from headrace.core.quoting import quoted
from headrace_cli.documents import Document

CHANNEL = "NatsJetStreamChannel"
CHANNEL_KINDS = (CHANNEL, "Channel")

Parsed = TypeVar("Parsed", bound=BaseModel)


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", alias_generator=to_camel)

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, data: Any) -> Any:
        return {key: value for key, value in data.items() if value is not None} if isinstance(data, dict) else data


class Ref(_Model):
    """An object that an address is to be taken from."""

    api_version: str = ""
    kind: str
    name: str
    namespace: str = ""
    group: str = ""
    address: str = ""


class Destination(_Model):
    """An address: a URI, or an object with a path below its own address."""

    ref: Ref | None = None
    uri: str | None = None
    ca_certs: str | None = Field(None, alias="CACerts")
    audience: str | None = None

    _object = model_validator(mode="before")(refuse_bare_address)

    @model_validator(mode="after")
    def _leads_somewhere(self) -> Destination:
        if self.ref is None and self.uri is None:
            raise PydanticCustomError("leads_nowhere", "it has neither a uri nor a ref: give one")
        return self

    def trust(self, *, prefix: str = "") -> dict[str, str]:
        """CA certificates and audience, as a sink has them or, with a prefix, as a subscriber entry has."""
        named = {"CACerts": self.ca_certs, "audience": self.audience}
        return {
            f"{prefix}{name[0].upper() if prefix else name[0]}{name[1:]}": text for name, text in named.items() if text
        }


class Delivery(delivery_spec.Delivery):
    """`delivery` of a channel or Subscription; durations and limits are `headrace.core.delivery_spec`'s."""

    model_config = ConfigDict(extra="forbid")

    dead_letter_sink: Destination | None = None  # type: ignore[assignment]  # the same, more strictly


class ChannelRef(_Model):
    """The channel that a Subscription is of: always one of its own namespace."""

    api_version: str = ""
    kind: str
    name: str


class SubscriptionSpec(_Model):
    """`spec` of a messaging.knative.dev/v1 Subscription."""

    channel: ChannelRef
    subscriber: Destination | None = None
    reply: Destination | None = None
    delivery: Delivery | None = None

    @model_validator(mode="after")
    def _has_a_subscriber(self) -> SubscriptionSpec:
        if self.subscriber is None and self.reply is None:
            raise PydanticCustomError("no_subscriber", "it has neither a subscriber nor a reply: give a subscriber")
        return self


class ChannelTemplate(_Model):
    """What a generic Channel is to be made of."""

    api_version: str = ""
    kind: str
    spec: dict[str, Any] = {}


def parse(document: Document, model: type[Parsed], raw: object, path: str) -> Parsed:
    """Read one part of a document.

    Raises:
        InvalidSpec: naming file, document, the first wrong field below `path`, and its value.
    """
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    field = path_of(path, first["loc"])
    raise document.fault(_sentence(field, first, model), field=field)


def channel_spec(document: Document) -> dict[str, Any]:
    """The spec of a channel, own or by the template of a generic one, still as it was written.

    Raises:
        InvalidSpec: it is no object, or the template is of another kind.
    """
    spec = document.body.get("spec") or {}
    if not isinstance(spec, dict):
        raise document.fault(f"spec is {as_written(spec)}: it should be an object", field="spec")
    spec = dict(spec)
    template = None if document.body["kind"] == CHANNEL else spec.pop("channelTemplate", None)
    if template is None:
        return spec
    parsed = parse(document, ChannelTemplate, template, "spec.channelTemplate")
    if parsed.kind != CHANNEL:
        problem = f"spec.channelTemplate.kind is {quoted(parsed.kind)}: only {CHANNEL} is served"
        raise document.fault(problem, field="spec.channelTemplate.kind")
    return {**parsed.spec, **spec}


def refuse_typos(document: Document, spec: Mapping[str, Any]) -> None:
    """What an API server would prune in silence, or refuse: members that a channel's spec does not have.

    Raises:
        InvalidSpec: naming the first one.
    """
    for path, name, known in _unknown(manifest.Spec, spec, "spec"):
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]}?" if close else "take it out"
        raise document.fault(f"{path}.{name} is no field that is known here: {hint}", field=f"{path}.{name}")


def _unknown(model: type[BaseModel], raw: object, path: str) -> Iterator[tuple[str, str, list[str]]]:
    if not isinstance(raw, Mapping):
        return
    fields = {str(field.alias or name): field for name, field in model.model_fields.items()}
    for name, value in raw.items():
        if name not in fields:
            yield path, str(name), list(fields)
            continue
        kind = fields[name].annotation
        inner = next((part for part in (kind, *getattr(kind, "__args__", ())) if _is_model(part)), None)
        if inner is not None:
            items = enumerate(value) if isinstance(value, list) else [(None, value)]
            for index, item in items:
                yield from _unknown(inner, item, f"{path}.{name}" + ("" if index is None else f"[{index}]"))


def _sentence(field: str, error: ErrorDetails, model: type[BaseModel]) -> str:
    if error["type"] == "extra_forbidden":
        known = _aliases(model)
        close = difflib.get_close_matches(str(error["loc"][-1]), known, n=1)
        hint = f"did you mean {close[0]}?" if close else "take it out"
        return f"{field} is no field that is known here: {hint}"
    return sentence(field, error)


def _aliases(model: type[BaseModel]) -> list[str]:
    """Every field name that may stand anywhere in a model."""
    found: list[str] = []
    for field in model.model_fields.values():
        found.append(str(field.alias))
        inner = [kind for kind in (field.annotation, *getattr(field.annotation, "__args__", ())) if _is_model(kind)]
        found += [name for kind in inner for name in _aliases(kind)]
    return found


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)

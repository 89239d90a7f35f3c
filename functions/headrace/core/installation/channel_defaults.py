"""Defaults for fields that a channel's author leaves out: the ConfigMap `config-ch-jetstream-defaults`.

It holds the document of Knative's proposal: `clusterDefault` and `namespaceDefaults`, each with the name of a ConfigMap
for NATS (`configName`). Beside that name each may have a `spec` of the same form as a channel's. Field by field the
manifest wins over the namespace's defaults, and these win over the cluster's. Pure: the text and the time are
arguments. Called by `headrace.reconcile`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from headrace.core.conditions import Condition, added
from headrace.core.errors import InvalidSpec, Misconfigured
from headrace.core.installation.config_choice import DEFAULTS_KEY as KEY
from headrace.core.installation.config_choice import DEFAULTS_NAME as NAME
from headrace.core.installation.config_maps import document, unknown_members
from headrace.core.manifest import own_address
from headrace.core.manifest.delivery_spec import Sink
from headrace.core.manifest.field_words import path_of, sentence
from headrace.core.manifest.manifest import Spec
from headrace.core.manifest.own_address import OwnAddress
from headrace.core.manifest.part import RULE, Part, is_hollow

APPLIED = "DefaultsApplied"

Raw = Mapping[str, Any]

_SINK = "delivery.deadLetterSink"
# Objects that are taken or left as a whole: two halves from two sides would mean neither.
_WHOLE = (
    _SINK,
    "stream.config.mirror",
    "stream.config.placement",
    "stream.config.subjectTransform",
    "stream.config.republish",
    "deploymentSpecTemplate.affinity",
    "connection",
)
# Groups of fields: a default for one would contradict the author's value for another.
_TOGETHER = (
    (
        "consumerConfigTemplate.deliverPolicy",
        "consumerConfigTemplate.optStartSeq",
        "consumerConfigTemplate.optStartTime",
    ),
    ("consumerConfigTemplate.filterSubject", "consumerConfigTemplate.filterSubjects"),
    ("consumerConfigTemplate.rateLimitBPS", "consumerConfigTemplate.rateLimitBps"),
)
# Fields that make sense for one channel only.
_NEVER_A_DEFAULT = ("subscribers", "stream.overrideName")


class _Default(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="allow", alias_generator=to_camel)

    config_name: str | None = None
    spec: dict[str, Any] | None = None


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="allow", alias_generator=to_camel)

    cluster_default: _Default | None = None
    namespace_defaults: dict[str, _Default | None] | None = None


@dataclass(frozen=True, slots=True)
class Defaults:
    """The whole document.

    Attributes:
        cluster, namespaces: the specs; empty where there is none.
        config_names: by namespace, the ConfigMap with the way to NATS there; the cluster's under the empty name.
        remarks: the parts that are not obeyed, for people.
        problem: why the present document can't be used; these are the last good defaults then.
    """

    cluster: Raw = field(default_factory=dict)
    namespaces: Mapping[str, Raw] = field(default_factory=dict)
    config_names: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    problem: str = ""

    def config_name(self, namespace: str) -> str:
        """The ConfigMap for the functions of a namespace with its own scope; empty for the usual one."""
        return self.config_names.get(namespace) or self.config_names.get("", "")


@dataclass(frozen=True, slots=True)
class Merged:
    """A channel with its defaults.

    Attributes:
        parent: the channel as if its author had written the defaults.
        unsaid: members of `spec.stream.config` that the author has not written.
    """

    parent: dict[str, Any]
    unsaid: frozenset[str]
    _given: Mapping[str, tuple[str, ...]]
    _defaults: Defaults

    def blamed(self, error: InvalidSpec) -> InvalidSpec:
        """The same error; if the wrong value is a default, the error names the default's place."""
        source = self._source(error.field)
        if source is None:
            return error
        return InvalidSpec(f"{error} ({_of(source)} of ConfigMap {NAME})", field=error.field)

    def is_default(self, field: str) -> bool:
        """Is the value of this field, as in `spec.stream.config.maxAge`, a default?"""
        return self._source(field) is not None

    def _source(self, field: str) -> str | None:
        path = field.removeprefix("spec.")
        for source, paths in self._given.items():
            if any(path == one or path.startswith((f"{one}.", f"{one}[")) for one in paths):
                return source
        return None

    def add_condition(self, status: dict[str, Any], now: datetime) -> dict[str, Any]:
        """The status with the condition about the defaults that apply; without it where there are none at all."""
        condition = self._condition()
        if condition is None:
            return status
        return added(status, condition, self.parent, now)

    def _condition(self) -> Condition | None:
        given = "; ".join(f"{_of(source)}: {', '.join(paths)}" for source, paths in self._given.items() if paths)
        if self._defaults.problem:
            kept = f"; the last good ones apply: {given}" if given else ""
            return Condition(APPLIED, False, "DefaultsBroken", self._defaults.problem + kept, informative=True)
        return Condition(APPLIED, True, message=given) if given else None


def parse(data: Mapping[str, str], *, name: str = NAME) -> Defaults:
    """The defaults of a ConfigMap; none when it has no such key.

    Args:
        data: the ConfigMap's, or the files of the directory where it is mounted.

    Raises:
        Misconfigured: naming ConfigMap, key and field, and quoting the value.
    """
    if KEY not in data:
        return Defaults()
    origin = f"ConfigMap {name}, key {KEY}"
    found = document(_Document, data[KEY], origin)
    remarks = [f"{origin}: {path} is unknown and not obeyed" for path in unknown_members(found, "")]
    sources = {"": found.cluster_default or _Default()}
    sources |= {name: one or _Default() for name, one in (found.namespace_defaults or {}).items()}
    specs: dict[str, Raw] = {}
    for namespace, default in sources.items():
        path = f"namespaceDefaults.{namespace}" if namespace else "clusterDefault"
        specs[namespace] = _checked(default.spec or {}, f"{path}.spec", origin)
        remarks += [
            f"{origin}: {one} is unknown and not obeyed: check its spelling"
            for one in _unknown(Spec, specs[namespace], f"{path}.spec")
        ]
        if namespace:
            remarks += [f"{origin}: {path}.{one} is unknown and not obeyed" for one in default.model_extra or {}]
    cluster = specs.pop("")
    names = {namespace: default.config_name for namespace, default in sources.items() if default.config_name}
    return Defaults(cluster, specs, names, tuple(remarks))


def merged(parent: Mapping[str, Any], defaults: Defaults, domain: str = "cluster.local") -> Merged:
    """A channel with the defaults of its namespace and of the cluster; unchanged if its spec is no object.

    Args:
        domain: the domain of the cluster's Services.
    """
    own = parent.get("spec")
    if own is not None and not isinstance(own, Mapping):
        return Merged(dict(parent), frozenset(), {}, defaults)
    spec: dict[str, Any] = dict(own or {})
    config = _at(spec, "stream.config")
    said = (
        {name for name, value in config.items() if not _nothing(value, f"stream.config.{name}")}
        if isinstance(config, Mapping)
        else set()
    )
    namespace = str(parent["metadata"].get("namespace", ""))
    given: dict[str, tuple[str, ...]] = {}
    for source, default in ((namespace, defaults.namespaces.get(namespace) or {}), ("", defaults.cluster)):
        default = _without_contradictions(default, spec)
        if _is_itself(_at(default, _SINK), own_address.of(parent, domain)):
            # This channel is the sink of all others, and has none itself.
            default = _without(default, _SINK.split("."))
        given[source] = tuple(_news(default, spec, ""))
        spec = _filled(spec, default, "")
    unsaid = frozenset(_MEMBERS_OF_CONFIG - said)
    return Merged({**parent, "spec": spec} if own is not None or spec else dict(parent), unsaid, given, defaults)


def alone(defaults: Defaults, namespace: str) -> dict[str, Any]:
    """A channel of a namespace whose author has written nothing."""
    return merged({"metadata": {"namespace": namespace, "name": "any"}}, defaults).parent


_MEMBERS_OF_CONFIG = {
    str(member.alias)
    for model in (type(Spec.model_fields["stream"].default.config),)
    for member in model.model_fields.values()
}


def _of(source: str) -> str:
    return f"namespaceDefaults.{source}" if source else "clusterDefault"


def _checked(spec: Raw, path: str, origin: str) -> Raw:
    taken = next((one for one in _NEVER_A_DEFAULT if _at(spec, one) not in (None, "", [], {})), None)
    if taken is not None:
        problem = f"{path}.{taken} can't be a default, since it is one channel's own: take it out"
        raise Misconfigured(f"{origin}: {problem}", field=f"{path}.{taken}")
    try:
        Spec.model_validate(spec)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    else:
        return spec
    location = (*first["loc"], first["ctx"]["field"]) if first["type"] == RULE else first["loc"]
    field = path_of(path, location)
    raise Misconfigured(f"{origin}: {sentence(field, first)}", field=field)


def _unknown(model: type[BaseModel], raw: Any, path: str) -> Iterator[str]:
    """The paths that a channel's spec does not have. Labels and the like are passed over: any key may stand there."""
    fields = {str(one.alias): one for one in model.model_fields.values()}
    for name, value in raw.items() if isinstance(raw, Mapping) else ():
        if name not in fields:
            yield f"{path}.{name}"
            continue
        inner = next((one for one in _models(fields[name].annotation) if issubclass(one, Part)), None)
        if inner is not None:
            yield from _unknown(inner, value, f"{path}.{name}")


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    # The models in a choice, such as `Delivery | None`; lists are checked when they are parsed.
    for one in getattr(annotation, "__args__", ()):
        if isinstance(one, type) and issubclass(one, BaseModel):
            yield one


def _filled(own: Raw, default: Raw, path: str) -> dict[str, Any]:
    """`own` with the members that only `default` has; objects inside likewise, lists are taken whole."""
    result = dict(own)
    for name, value in default.items():
        here, before = f"{path}{name}", own.get(name)
        if _nothing(before, here):
            result[name] = value
        elif isinstance(before, Mapping) and isinstance(value, Mapping) and here not in _WHOLE:
            result[name] = _filled(before, value, f"{here}.")
    return result


def _news(default: Raw, own: Raw, path: str) -> Iterator[str]:
    """The paths that only `default` has."""
    for name, value in default.items():
        here, before = f"{path}{name}", own.get(name)
        if _nothing(value, here):
            continue
        if (
            isinstance(value, Mapping)
            and here not in _WHOLE
            and (_nothing(before, here) or isinstance(before, Mapping))
        ):
            yield from _news(value, before or {}, f"{here}.")
        elif _nothing(before, here):
            yield here


def _without_contradictions(default: Raw, own: Raw) -> Raw:
    for group in _TOGETHER:
        if any(not _nothing(_at(own, path), path) for path in group):
            for path in group:
                default = _without(default, path.split("."))
    if not _nothing(_at(own, "stream.config.mirror"), "stream.config.mirror"):
        # A mirror takes only events of its origin.
        for name in ("additionalSubjects", "sources", "firstSeq", "allowAtomic", "allowMsgSchedules"):
            default = _without(default, ["stream", "config", name])
    return default


def _is_itself(sink: Any, own: OwnAddress) -> bool:
    """Is this dead letter sink, which has been checked, the very channel that would get it by default?"""
    if not isinstance(sink, Mapping):
        return False
    read = Sink.model_validate(sink)
    return own.is_named(read.ref) if read.ref is not None else own.is_at(read.uri or "")


def _nothing(value: Any, path: str) -> bool:
    """Is nothing written there?"""
    return value in (None, "") or (path in _WHOLE and is_hollow(value))


def _without(raw: Raw, path: list[str]) -> Raw:
    first, *rest = path
    inner = raw.get(first)
    if not rest:
        return {name: value for name, value in raw.items() if name != first}
    return {**raw, first: _without(inner, rest)} if isinstance(inner, Mapping) else raw


def _at(raw: Any, path: str) -> Any:
    for step in path.split("."):
        raw = raw.get(step) if isinstance(raw, Mapping) else None
    return raw


def kept(defaults: Defaults, problem: str) -> Defaults:
    """The last good defaults, while the present ones are broken."""
    return replace(defaults, problem=problem)

"""From the pydantic models of a manifest to a structural OpenAPI v3 schema, as a CustomResourceDefinition has it.

Pure. Kubernetes takes no $ref, no null, no `const` and no titles, and nothing beside `x-kubernetes-int-or-string` in an
`anyOf`; descriptions come from the docstrings that stand below the fields. Called by `infra.generate.crd`.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from headrace.core.manifest.part import Fixed, Part, Rule

# The keys of a pydantic schema that mean the same to Kubernetes.
_KEPT = (
    "type",
    "format",
    "pattern",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "maxProperties",
    "additionalProperties",
    "anyOf",
)
_BOUNDS = ("minimum", "maximum")
_INT32_MAX = 2**31 - 1
_UNLESS_GIVEN = "when it is not given, here or in the defaults of the namespace."

Schema = dict[str, Any]


def schema(model: type[Part], *, lax: bool = False) -> Schema:
    """The schema of an object.

    Args:
        lax: types and descriptions only; for what a controller writes, whose whole patch would fail on one bad value.
    """
    pydantic = model.model_json_schema(by_alias=True)
    parts = {part.__name__: part for part in _parts(model)}
    return _Reader(pydantic.get("$defs", {}), parts, lax=lax).object(model, pydantic)


class _Reader:
    """Walks one pydantic schema; `parts` are the models behind its definitions."""

    def __init__(self, definitions: Mapping[str, Any], parts: Mapping[str, type[Part]], *, lax: bool) -> None:
        self._definitions = definitions
        self._parts = parts
        self._lax = lax

    def object(self, model: type[Part], pydantic: Mapping[str, Any]) -> Schema:
        described = descriptions(model)
        properties = {}
        for name, field in model.model_fields.items():
            alias = str(field.alias)
            found = self._value(pydantic["properties"][alias], optional=not field.is_required())
            if name in described:
                about = described[name]
                if _is_enum(field) and field.default and not self._lax:
                    about = f"{about.rstrip('.')}. {field.default} {_UNLESS_GIVEN}"
                found = {"description": about} | {key: one for key, one in found.items() if key != "description"}
            if not self._lax:
                found |= _default(field)
            properties[alias] = found
        # What comes after the first paragraph is for programmers.
        about = _flowing((inspect.getdoc(model) or "").split("\n\n")[0])
        result: Schema = {"description": about, "type": "object"}
        required = [str(field.alias) for field in model.model_fields.values() if field.is_required()]
        if required and not self._lax:
            result["required"] = required
        result["properties"] = properties
        rules = [*map(_validation, model.rules), *map(_validation, model.fixed)]
        if rules and not self._lax:
            result["x-kubernetes-validations"] = rules
        return result

    def _value(self, found: Mapping[str, Any], *, optional: bool) -> Schema:
        alternatives = [one for one in found.get("anyOf", ()) if one != {"type": "null"}]
        if "$ref" in found:
            name = str(found["$ref"]).rpartition("/")[2]
            return self.object(self._parts[name], self._definitions[name])
        if len(alternatives) == 1:
            return self._value({**found, "anyOf": (), **alternatives[0]}, optional=optional)
        kept: Schema = {key: found[key] for key in _KEPT if key in found and found[key] != ()}
        # What 64 bits hold is the format's to say, whose bounds the server can't write as numbers.
        kept = {key: one for key, one in kept.items() if key not in _BOUNDS or abs(one) < 2**63 - 1}
        if kept.get("type") == "integer":
            kept |= _number_format(found)
        if "enum" in found:
            # Empty text is what Go's clients write for what was not set.
            kept["enum"] = [*found["enum"], *([""] if optional else [])]
        if "items" in found:
            kept["items"] = self._value(found["items"], optional=False)
        if isinstance(kept.get("additionalProperties"), dict):
            kept["additionalProperties"] = self._value(kept["additionalProperties"], optional=False)
        kept |= {key: value for key, value in found.items() if key.startswith("x-kubernetes-")}
        return _types_only(kept) if self._lax else kept


def descriptions(model: type[BaseModel]) -> dict[str, str]:
    """The docstrings that stand below the fields of a model, by the field's name in Python."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if isinstance(base, type) and issubclass(base, Part) and base is not Part:
            found |= _docstrings(base)
    return found


@functools.cache
def _docstrings(model: type) -> dict[str, str]:
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for field, below in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            match below:
                case ast.Expr(ast.Constant(str(text))):
                    found[field.target.id] = _flowing(inspect.cleandoc(text))
    return found


def _parts(model: type[Part]) -> set[type[Part]]:
    found = {model}
    for field in model.model_fields.values():
        for inner in _models_in(field.annotation):
            if inner not in found:
                found |= _parts(inner)
    return found


def _models_in(annotation: Any) -> set[type[Part]]:
    if isinstance(annotation, type) and issubclass(annotation, Part):
        return {annotation}
    return {model for argument in get_args(annotation) for model in _models_in(argument)}


def default_of(model: type[Part]) -> Schema:
    """What an object is when nothing of it is said; whole, since the rules judge defaults before they are filled in."""
    found: Schema = {}
    for field in model.model_fields.values():
        found |= {str(field.alias): default for default in _default(field).values()}
    return found


def _default(field: FieldInfo) -> Schema:
    """Only what rules look at: the words of enums, and objects whose members have such defaults.

    Of an enum the empty word, which says nothing: what its author has not said a namespace's defaults may say.
    """
    value = field.default
    if _is_enum(field) and value:
        return {"default": ""}
    if isinstance(value, str) and value:
        return {"default": value}
    return {"default": default_of(type(value))} if isinstance(value, Part) else {}


def _is_enum(field: FieldInfo) -> bool:
    return get_origin(field.annotation) is Literal


def _validation(rule: Rule | Fixed) -> Schema:
    return {"rule": rule.cel, "message": f"{rule.field}: {rule.says}", "fieldPath": f".{rule.field}"}


def _number_format(found: Mapping[str, Any]) -> Schema:
    return {"format": "int32" if found.get("maximum", 2**63) <= _INT32_MAX else "int64"}


def _types_only(found: Schema) -> Schema:
    """What is left of a value when anything of its type will do."""
    structure = ("type", "items", "additionalProperties", "properties", "anyOf", "x-kubernetes-int-or-string")
    kept = {key: found[key] for key in structure if key in found}
    return kept | ({"format": found["format"]} if found.get("type") == "integer" else {})


def _flowing(text: str) -> str:
    return " ".join(text.split())

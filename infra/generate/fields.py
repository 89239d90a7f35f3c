"""Writes `docs/channel-fields.md`: every field of a channel's spec, its values, and who refuses which.

Read off the CRD, so that the table can't say anything else. `task crd` runs it after the CRD is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from infra.generate import crd
from infra.generate.structural import Schema

FILE = Path(__file__).resolve().parents[2] / "docs" / "channel-fields.md"

_HEAD = """\
# The fields of a NatsJetStreamChannel

`task crd` generates this page. The API server checks every type. "Held by" says who refuses a wrong value: *API* is the
API server, at apply, by enum, bounds or rule; *change* is the API server as well, when an edit changes a fixed field;
*entry* is `reconcile`, for the subscriber that it concerns, in `status.subscribers`; *nobody* means that every value of
the type will do. Refusals of NATS itself (a cluster that does not exist, subjects that overlap) are in the condition
StreamReady, in its own words.

Subjects and streams that a channel names have to be its namespace's own, or opened by [an administrator's
list](install.md#what-a-namespace-may-name): `stream.overrideName`, and in `stream.config` `additionalSubjects`,
`mirror`, `sources`, and the destinations of `republish` and `subjectTransform`; in an adopted stream also the filters
of `consumerConfigTemplate`. `reconcile` refuses others, by the condition `NamesAllowed`.

| field | takes | default | held by | what it is |
|---|---|---|---|---|
"""
# Kubernetes' own, which its own documents explain.
_OF_ENTRIES = ("subscribers", "delivery.deadLetterSink")
# Told in the description, since the default of the CRD itself is the empty word.
_BUILT_IN = re.compile(r" (\w+) when it is not given, here or in the defaults of the namespace\.$")
_FOLDED = ("affinity", "tolerations", "resources", "imagePullSecrets")


def text() -> str:
    """The file as it is committed."""
    (version,) = crd.definition()["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return _HEAD + "".join(_rows(spec, ""))


def _rows(schema: Schema, path: str) -> Iterator[str]:
    changes, rules = _ruled(schema)
    rules |= set(schema.get("required", ()))
    for name, field in schema["properties"].items():
        here = f"{path}.{name}" if path else name
        inner = field.get("items", field)
        if "properties" in inner and name not in _FOLDED:
            yield f"| `{here}` | {_takes(field)} | | | {field.get('description', '')} |\n"
            yield from _rows(inner, here + ("[]" if "items" in field else ""))
            continue
        held = [*(["API"] if _bounded(field) or name in rules else []), *(["change"] if name in changes else [])]
        holder = "entry" if path.startswith(_OF_ENTRIES) else ", ".join(held) or "nobody"
        words = field.get("description", "")
        found = _BUILT_IN.search(words)
        built_in = found[1] if found else field.get("default")
        default = f"`{built_in}`" if isinstance(built_in, str) and built_in else ""
        yield f"| `{here}` | {_takes(field)} | {default} | {holder} | {_cell(_BUILT_IN.sub('', words))} |\n"


def _ruled(schema: Schema) -> tuple[set[str], set[str]]:
    """The fields that transition rules and other rules are about."""
    changes: set[str] = set()
    rules: set[str] = set()
    for rule in schema.get("x-kubernetes-validations", ()):
        (changes if "oldSelf" in rule["rule"] else rules).add(rule["fieldPath"].lstrip("."))
    return changes, rules


def _bounded(field: Schema) -> bool:
    """Whether anything but the type is asked for."""
    keys = {"enum", "minimum", "pattern", "maxLength", "x-kubernetes-validations"}
    return bool(keys & field.keys()) or ("items" in field and _bounded(field["items"]))


def _takes(field: Schema) -> str:
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"] if value)
    if "items" in field:
        return f"list of {_takes(field['items'])}s"
    if field.get("x-kubernetes-int-or-string"):
        return "integer or text"
    kind = "text" if field["type"] == "string" else str(field["type"])
    bounds = [str(field[key]) for key in ("minimum", "maximum") if abs(field.get(key, 2**31)) < 2**31 - 1]
    return f"{kind} {' to '.join(bounds)}" if len(bounds) == 2 else kind


def _cell(words: str) -> str:
    return words.replace("|", "\\|")


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")

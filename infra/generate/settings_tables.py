"""The tables of settings, made from the models that read them.

One is in docs/settings.md, one in docs/functions.md for the children that `reconcile` answers, one in docs/operator.md.
"""

from __future__ import annotations

from datetime import timedelta

from pydantic import BaseModel

from headrace.core import duration
from headrace.core.installation import function_settings as functions
from headrace.core.installation import operator_settings as operator
from headrace.core.installation.nats_settings import NatsSettings
from headrace.core.installation.reconcile_settings import FunctionsSettings, ReconcileSettings

MODELS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("all", NatsSettings),
    ("all functions", functions.MetricsSettings),
    ("all functions", functions.ConnectionSettings),
    ("`receive`, `forward`", functions.TracingSettings),
    ("`receive`", functions.ReceiveSettings),
    ("`receive`", functions.TlsSettings),
    ("`forward`", functions.ForwardSettings),
    ("`forward`, `reconcile`", functions.TokenSettings),
    ("`forward`, `receive`", functions.DeliverySettings),
    ("`forward`, `receive`", functions.SecuritySettings),
    ("`reconcile`", ReconcileSettings),
)


def contents() -> dict[tuple[str, str], str]:
    """By document and name of the place in it."""
    return {
        ("settings.md", "settings"): _table(),
        ("functions.md", "settings"): _functions_table(),
        ("operator.md", "settings"): _operator_table(),
    }


def _table() -> str:
    lines = ["| variable | of | meaning | default |", "|---|---|---|---|"]
    for whose, model in MODELS:
        for name, field in model.model_fields.items():
            if name not in FunctionsSettings.model_fields:
                lines.append(f"| `{field.alias}` | {whose} | {field.description} | {_default(field.default)} |")
    return "\n".join(lines)


def _functions_table() -> str:
    lines = ["| variable of `reconcile` | meaning | default |", "|---|---|---|"]
    for field in FunctionsSettings.model_fields.values():
        lines.append(f"| `{field.alias}` | {field.description} | {_default(field.default)} |")
    return "\n".join(lines)


def _operator_table() -> str:
    lines = ["| variable of the operator | meaning | default |", "|---|---|---|"]
    for model in (operator.OperatorSettings, operator.KubeSettings):
        for field in model.model_fields.values():
            default = "must be set" if field.is_required() else _default(field.default)
            lines.append(f"| `{field.alias}` | {field.description} | {default} |")
    return "\n".join(lines)


def _default(value: object) -> str:
    match value:
        case None | "" | ():
            return ""
        case timedelta():
            return f"`{duration.to_iso(value)}`"
        case bool():
            return f"`{str(value).lower()}`"
        case _:
            return f"`{value}`"

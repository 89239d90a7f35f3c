"""The parts of the Helm chart that are made from other files: templates of `infra/base`, the CRD, dashboards, alerts.

What is of the chart alone is written by hand in `infra/chart/templates`: names, the token, monitoring, the notes.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from infra.generate import marked

INFRA = Path(__file__).resolve().parents[1]
CHART = INFRA / "chart"
_HEAD = "{{- /* Written by `task manifests` from infra/NAME: what it writes is marked there with `# chart`. */ -}}\n"
_ONLY_IF = {
    "reconcile.yaml": 'eq .Values.reconcile.kind "deployment"',
    "reconcile-knative.yaml": 'eq .Values.reconcile.kind "knative"',
}


def files(base: Iterable[Path], knative: str) -> dict[Path, str]:
    """By path.

    Args:
        base: the files of `infra/base`, and the CRD.
        knative: `reconcile` as a Knative Service, with marks.
    """
    written: dict[Path, str] = {}
    for path in base:
        text = path.read_text(encoding="utf-8")
        if path.parent.name == "crds":
            # Helm makes these once and never changes or deletes them: with a CRD go all channels.
            written[CHART / "crds" / path.name] = text
            continue
        name = f"rbac-{path.name}" if path.parent.name == "rbac" else path.name
        written[CHART / "templates" / name] = _template(name, str(path.relative_to(INFRA)), text)
    name = "reconcile-knative.yaml"
    written[CHART / "templates" / name] = _template(name, "overlays/knative/reconcile.yaml", knative)
    for path in (*sorted((INFRA / "grafana").glob("*.json")), INFRA / "prometheus" / "alerts.yaml"):
        # Helm reads nothing outside of the chart.
        written[CHART / "files" / path.name] = path.read_text(encoding="utf-8")
    return written


def _template(name: str, origin: str, text: str) -> str:
    body = marked.template(text)
    if condition := _ONLY_IF.get(name):
        body = f"{{{{- if {condition} }}}}\n{body}{{{{- end }}}}\n"
    return _HEAD.replace("NAME", origin) + body

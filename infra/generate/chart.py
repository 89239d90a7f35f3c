"""The templates of the Helm chart that are written from `infra/base` and the overlay `deployment`.

What belongs to the chart alone is written by hand in `infra/chart/templates`: names, the token, monitoring, the notes.
The CRD, the dashboards and the alerts are links; Helm follows them when it reads or packages the chart.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from infra.generate import marked

INFRA = Path(__file__).resolve().parents[1]
CHART = INFRA / "chart"
_HEAD = "{{- /* Written by `task manifests` from infra/NAME: what it writes is marked there with `# chart`. */ -}}\n"
# Files of one name in two folders: what each is called in the chart, and when it counts.
_RECONCILE = {"deployment": ("reconcile.yaml", "deployment"), "base": ("reconcile-knative.yaml", "knative")}

# There the operator may ask Knative what its autoscaler allows, and what its flags are.
_ONLY_IF = {
    "network-policies.yaml": ".Values.networkPolicies.enabled",
    "rbac-serving.yaml": 'include "headrace.asksKnative" .',
    "rbac-eventing.yaml": 'include "headrace.asksEventing" .',
}


def files(base: Mapping[Path, str]) -> dict[Path, str]:
    """By path.

    Args:
        base: the files of `infra/base`, and `reconcile` as a Deployment, with their marks.
    """
    written: dict[Path, str] = {}
    for path, text in base.items():
        origin = str(path.relative_to(INFRA))
        if path.name == "reconcile.yaml":
            name, kind = _RECONCILE[path.parent.name]
            body = _template(origin, text, only_if=f'eq (include "headrace.reconcileKind" .) "{kind}"')
        else:
            name = f"rbac-{path.name}" if path.parent.name == "rbac" else path.name
            body = _template(origin, text, only_if=_ONLY_IF.get(name, ""))
        written[CHART / "templates" / name] = body
    return written


def _template(origin: str, text: str, only_if: str = "") -> str:
    body = marked.template(text)
    if only_if:
        body = f"{{{{- if {only_if} }}}}\n{body}{{{{- end }}}}\n"
    return _HEAD.replace("NAME", origin) + body

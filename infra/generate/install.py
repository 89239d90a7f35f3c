"""Writes what follows from `infra/base`: `infra/install.yaml`, and `reconcile` as a Knative Service for its overlay.

`task manifests` runs it and writes the Helm chart, too; a unit test holds the committed files against it.
"""

from __future__ import annotations

from pathlib import Path

import yaml

from infra.generate import chart, marked, values

INFRA = Path(__file__).resolve().parents[1]
BASE = INFRA / "base"
INSTALL = INFRA / "install.yaml"
KNATIVE = INFRA / "overlays" / "knative" / "reconcile.yaml"

_HEAD = """\
# Headrace, whole; written by `task manifests` from infra/base. Put the name of your image in place of
# headrace.example/headrace:0.1.0, which is in three places; docs/install.md says how, and what has to be there before.
"""
_SERVICE = """\
# `reconcile` as a Knative Service, which sleeps while no channel changes. Written by `task manifests` from
# infra/base/reconcile.yaml.
apiVersion: serving.knative.dev/v1
kind: Service
metadata:
  name: headrace-reconcile
  namespace: knative-eventing
  labels:
    app.kubernetes.io/name: headrace
    app.kubernetes.io/component: reconcile
    networking.knative.dev/visibility: cluster-local
spec:
  template:
    metadata:
      labels: {app.kubernetes.io/name: headrace, app.kubernetes.io/component: reconcile}
      annotations:
        autoscaling.knative.dev/class: kpa.autoscaling.knative.dev
        autoscaling.knative.dev/metric: concurrency
        autoscaling.knative.dev/min-scale: "0"
        # The operator asks about 16 channels at a time, and NATS is what they wait for.
        autoscaling.knative.dev/target: "50"
        autoscaling.knative.dev/max-scale: "2"
    spec:
      serviceAccountName: headrace-functions
      automountServiceAccountToken: false
      enableServiceLinks: false
      # chart+ {{- include "headrace.pullSecrets" . | nindent 6 }}
      # chart+ {{- include "headrace.placement" .Values.reconcile | nindent 6 }}
      containerConcurrency: 0
      timeoutSeconds: 60
      containers:
        - name: reconcile
"""
_PROBES = """\
          ports:
            - {name: http1, containerPort: 8080}
          readinessProbe:
            httpGet: {path: /health/readiness, port: 8080}
          livenessProbe:
            httpGet: {path: /health/liveness, port: 8080}
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
"""


def resources(folder: Path = BASE) -> list[Path]:
    """The files that a kustomization names, those of folders that it names included."""
    named = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    paths = [(folder / name).resolve() for name in named]
    return [one for path in paths for one in (resources(path) if path.is_dir() else [path])]


def install() -> str:
    """`infra/install.yaml`."""
    texts = (marked.plain(path.read_text(encoding="utf-8")).strip() for path in resources())
    return _HEAD + "".join(f"---\n{text}\n" for text in texts)


def knative() -> str:
    """`infra/overlays/knative/reconcile.yaml`: the pod of the Deployment, as Knative takes it."""
    deployment = (BASE / "reconcile.yaml").read_text(encoding="utf-8").split("---\n")[0]
    image = next(line for line in deployment.splitlines(keepends=True) if line.startswith("          image: "))
    environment = deployment[deployment.index("          env:\n") : deployment.index("          ports:\n")]
    rest = deployment[deployment.index("          resources:") :]
    return _SERVICE + image + environment + _PROBES + rest


def files() -> dict[Path, str]:
    """All that is written, by path."""
    return {INSTALL: install(), KNATIVE: knative(), **values.files(), **chart.files(resources(), knative())}


def main() -> None:
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

"""Writes what follows from `infra/base` and the overlay `deployment`: the two files for kubectl, and `reconcile` as a
Knative Service.

`task manifests` runs it and writes the Helm chart, too; a unit test holds the committed files against it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import yaml

from infra.generate import chart, marked, values

INFRA = Path(__file__).resolve().parents[1]
BASE = INFRA / "base"
CRDS = INFRA / "crds"
INSTALL = INFRA / "install.yaml"
PLAIN = INFRA / "install-deployment.yaml"
KNATIVE = BASE / "reconcile.yaml"
OF_SERVING = BASE / "rbac" / "serving.yaml"
DEPLOYMENT = INFRA / "overlays" / "deployment" / "reconcile.yaml"

_HEAD = """\
# Headrace, whole, beside Knative Serving (without it: install-deployment.yaml); written by `task manifests` from
# infra/base. Put the name of your image in place of headrace.example/headrace:0.1.0, which is in three places;
# docs/install.md says how, and what has to be there before.
"""
_PLAIN_HEAD = """\
# Headrace, whole, as plain Deployments, for a cluster without Knative Serving; written by `task manifests` from
# infra/overlays/deployment. Put the name of your image in place of headrace.example/headrace:0.1.0, which is in three
# places; docs/install.md says how, and what has to be there before.
"""
_SERVICE = """\
# `reconcile`, the hook that the operator asks, as a Knative Service: it sleeps while no channel changes. Written by
# `task manifests` from infra/overlays/deployment/reconcile.yaml, and not of its name, since Knative makes a Service.
apiVersion: serving.knative.dev/v1
kind: Service
metadata:
  name: headrace-hook
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
        # A new image has answered a probe before it is asked anything, whatever the cluster's default is.
        autoscaling.knative.dev/initial-scale: "1"
        # Asleep again so long after the last question.
        autoscaling.knative.dev/window: "6s"
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
            # Otherwise Knative may count it as ready ten seconds late, and let it go that much later.
            periodSeconds: 1
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
    return _HEAD + _joined(knative() if path == KNATIVE else _read(path) for path in resources())


def plain() -> str:
    """`infra/install-deployment.yaml`: the base, with what the overlay has in the place of the Knative Service."""
    texts = [_read(DEPLOYMENT if path == KNATIVE else path) for path in resources() if path != OF_SERVING]
    for variable, value in _told_otherwise().items():
        texts = [_with_value(text, variable, value) for text in texts]
    return _PLAIN_HEAD + _joined(texts)


def knative() -> str:
    """`infra/base/reconcile.yaml`: the pod of the Deployment, as Knative takes it."""
    deployment = _read(DEPLOYMENT).split("---\n")[0]
    image = next(line for line in deployment.splitlines(keepends=True) if line.startswith("          image: "))
    environment = deployment[deployment.index("          env:\n") : deployment.index("          ports:\n")]
    rest = deployment[deployment.index("          resources:") :]
    return _SERVICE + image + _beside_serving(environment) + _PROBES + rest


def files() -> dict[Path, str]:
    """All that is written, by path."""
    of_chart = [path for path in (*resources(), DEPLOYMENT) if path.parent != CRDS]
    templates = {path: knative() if path == KNATIVE else _read(path) for path in of_chart}
    written = {INSTALL: install(), PLAIN: plain(), KNATIVE: knative()}
    return {**written, **values.files(), **chart.files(templates)}


def _beside_serving(environment: str) -> str:
    """With what is told where there is Knative Serving."""
    for plain in ("value: deployment  #", 'value: "false"  # chart: {{ include "headrace.zero'):
        assert environment.count(plain) == 1, plain
        environment = environment.replace(plain, f"value: auto  #{plain.partition('#')[2]}")
    return environment


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _joined(texts: Iterable[str]) -> str:
    return "".join(f"---\n{marked.plain(text).strip()}\n" for text in texts)


def _told_otherwise() -> dict[str, str]:
    """The variables that the overlay `deployment` gives another value to."""
    (patch,) = yaml.safe_load_all(_read(DEPLOYMENT.parent / "operator.yaml"))
    (container,) = patch["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one["value"] for one in container["env"]}


def _with_value(text: str, variable: str, value: str) -> str:
    return re.sub(rf"(- name: {variable}\n +value: )[^\n]+", lambda found: found[1] + value, text)


def main() -> None:
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

"""The command line tools that our documents name, built from their Go modules: helm, func, kn, nats, and so on.

For the tests of what we write for them (`task test:tools`), not for CI: minutes each, once per machine. `registry` is
an image registry in memory, for what `func` pushes; it comes with the modules of `func`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from infra.programs import go_programs
from infra.programs.go_programs import Program

MODULES = Path(__file__).resolve().parents[1] / "tools"
COMMAND = "task tools"


def _tool(name: str, root: str, package: str, *, module: str = "", version: str = "") -> Program:
    # Not from PATH: what is tested is what go.mod pins.
    flags = (lambda found: f"-s -w -X {version}={found}") if version else (lambda _found: "-s -w")
    return Program(name, MODULES / (module or name), root, package, cache="tools", link_flags=flags, says_version=())


HELM = _tool("helm", "helm.sh/helm/v3", "helm.sh/helm/v3/cmd/helm")
FUNC = _tool("func", "knative.dev/func", "knative.dev/func/cmd/func")
KN = _tool("kn", "knative.dev/client", "knative.dev/client/cmd/kn")
NATS = _tool("nats", "github.com/nats-io/natscli", "github.com/nats-io/natscli/nats")
KUSTOMIZE = _tool("kustomize", "sigs.k8s.io/kustomize/kustomize/v5", "sigs.k8s.io/kustomize/kustomize/v5")
PROMTOOL = _tool("promtool", "github.com/prometheus/prometheus", "github.com/prometheus/prometheus/cmd/promtool")
_CONTAINERS = "github.com/google/go-containerregistry"
REGISTRY = _tool("registry", _CONTAINERS, f"{_CONTAINERS}/cmd/registry", module="func")
# What a release is made with (docs/image.md): the list of what is in an image, and what is pushed.
SYFT = _tool("syft", "github.com/anchore/syft", "github.com/anchore/syft/cmd/syft", version="main.version")
ORAS = _tool("oras", "oras.land/oras", "oras.land/oras/cmd/oras")
# No program: its sources hold the cases that CESQL is held against.
CESQL = _tool("cesql", "github.com/cloudevents/sdk-go/sql/v2", "")
PROGRAMS = (KUSTOMIZE, HELM, PROMTOOL, NATS, KN, FUNC, REGISTRY, SYFT, ORAS)


def found(*programs: Program) -> Mapping[str, Path]:
    """These, or all of them, by name.

    Raises:
        Missing: one is nowhere; says which command prepares it.
    """
    return go_programs.found(programs or PROGRAMS, f"run `{COMMAND}`")


if __name__ == "__main__":
    # All of them, or those that are named.
    named = sys.argv[1:]
    go_programs.run([each for each in PROGRAMS if each.name in named or not named])

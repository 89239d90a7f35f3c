"""The programs of the cluster, built from their Go modules into the cache that the control plane's are in.

All are built as their authors have them; versions and checksums are those under infra/control-plane and
infra/neighbours.
What Debian has (containerd, runc, the CNI plugins) comes from there: `infra.cluster.machine`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from infra.programs import control_plane_binaries as control_plane
from infra.programs import go_programs
from infra.programs.go_programs import Program

INFRA = Path(__file__).resolve().parents[1]
COMMAND = "task cluster -- build"


def _of_kubernetes(name: str, says_version: tuple[str, ...] = ("--version",)) -> Program:
    program = control_plane.of_kubernetes(name, says_version)
    pinned = tuple(map(int, program.version.split(".")[:2]))
    # All of one version; of what may be on PATH, few are.
    return replace(program, environment="", usable=lambda version: version == pinned)


def _of_serving(name: str) -> Program:
    root = "knative.dev/serving"
    module = INFRA / "neighbours" / "serving"
    return Program(f"serving-{name}", module, root, f"{root}/cmd/{name}", cache="neighbours", says_version=())


def _of_eventing(name: str, package: str = "", *, root: str = "knative.dev/eventing") -> Program:
    module = INFRA / "neighbours" / "eventing"
    return Program(name, module, root, f"{root}/{package}", cache="neighbours", says_version=())


_NODE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet")
KUBECTL = _of_kubernetes("kubectl", ("version", "--client"))
KUBERNETES = (control_plane.ETCD, *(_of_kubernetes(name) for name in _NODE), KUBECTL)

SERVING = tuple(_of_serving(name) for name in ("queue", "activator", "autoscaler", "controller", "webhook"))
EVENTING = (
    _of_eventing("eventing-controller", "cmd/controller"),
    _of_eventing("eventing-webhook", "cmd/webhook"),
    _of_eventing("eventing-mtchannel_broker", "cmd/mtchannel_broker"),
    _of_eventing("eventing-broker-ingress", "cmd/broker/ingress"),
    _of_eventing("eventing-broker-filter", "cmd/broker/filter"),
)
# For Knative's conformance tests alone.
EVENTSHUB = _of_eventing("eventshub", "cmd/eventshub", root="knative.dev/reconciler-test")
HEARTBEATS = _of_eventing("heartbeats", "cmd/heartbeats")
REKT = Program(
    "rekt.test",
    INFRA / "neighbours" / "eventing",
    "knative.dev/eventing",
    "knative.dev/eventing/test/rekt",
    cache="neighbours",
    says_version=(),
    tags="e2e",
    of_tests=True,
)
INGRESS = Program("ingress", INFRA / "cluster" / "ingress", "", ".", cache="cluster", says_version=())

PROGRAMS = (*KUBERNETES, *SERVING, *EVENTING, INGRESS)
CONFORMANCE = (EVENTSHUB, HEARTBEATS, REKT)


def found(programs: tuple[Program, ...] = PROGRAMS) -> Mapping[str, Path]:
    """These programs by name.

    Raises:
        Missing: one is nowhere; says which command prepares it.
    """
    return go_programs.found(programs, f"run `{COMMAND}`")


def prepare(programs: tuple[Program, ...] = PROGRAMS) -> Mapping[str, Path]:
    """The same, built first where missing: minutes, once per machine."""
    go_programs.prepare(programs)
    return found(programs)


def sources(program: Program) -> Path:
    """The folder of the module that it is built from."""
    return go_programs.module_folder(program)

"""The programs of a control plane: where they are, and how they are built on a machine that has none.

No package index carries a kube-apiserver, so it is built from its Go modules (`infra.programs.go_programs`);
versions and checksums are those under infra/control-plane. `task control-plane` runs this module, tests only look.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from infra.programs import go_programs
from infra.programs.go_programs import Missing, Program

__all__ = ["COMMAND", "Missing", "found"]

MODULES = Path(__file__).resolve().parents[1] / "control-plane"
COMMAND = "task control-plane"
# Of CRDs with what ours has: rules that name their field, and that leave alone what an edit does not touch.
OLDEST = (1, 30)


def _stamped(version: str) -> str:
    """Flags of the linker that have the programs of Kubernetes know their version."""
    major, minor, _ = version.split(".")
    values = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s -w", *(f"-X k8s.io/component-base/version.{name}={value}" for name, value in values.items())])


def of_kubernetes(name: str, says_version: tuple[str, ...] = ("--version",)) -> Program:
    """One of Kubernetes' programs, as new as our CRD needs it."""
    return Program(
        name,
        MODULES / "kubernetes",
        "k8s.io/kubernetes",
        f"k8s.io/kubernetes/cmd/{name}",
        cache="control-plane",
        environment="KUBEBUILDER_ASSETS",
        link_flags=_stamped,
        says_version=says_version,
        usable=lambda version: version >= OLDEST,
    )


ETCD = Program(
    "etcd",
    MODULES / "etcd",
    "go.etcd.io/etcd/server/v3",
    "go.etcd.io/etcd/server/v3",
    cache="control-plane",
    environment="KUBEBUILDER_ASSETS",
)
API_SERVER = of_kubernetes("kube-apiserver")
CONTROLLER_MANAGER = of_kubernetes("kube-controller-manager")
PROGRAMS = (ETCD, API_SERVER, CONTROLLER_MANAGER)


def found() -> Mapping[str, Path]:
    """All programs by name.

    Raises:
        Missing: one is nowhere; says which command prepares it.
    """
    return go_programs.found(PROGRAMS, f"run `{COMMAND}`, or set KUBEBUILDER_ASSETS")


if __name__ == "__main__":
    go_programs.run(PROGRAMS)

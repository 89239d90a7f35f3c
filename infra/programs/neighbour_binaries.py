"""Knative Eventing's own controller and webhook and a stock Metacontroller, built from their Go modules, for
`task test:neighbours`.

Minutes, once per machine, and so not in CI.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from infra.programs import go_programs
from infra.programs.go_programs import Program

NEIGHBOURS = Path(__file__).resolve().parents[1] / "neighbours"
COMMAND = "task neighbours"
# Their probes are on port 8080, all of them, and that is a constant; here they share a host.
PORT = "HealthCheckDefaultPort = "
ANY_PORT = ("knative.dev/pkg", "injection/health_check.go", f"{PORT}8080", f"{PORT}0")


def _of_eventing(name: str) -> Program:
    return Program(
        f"eventing-{name}",
        NEIGHBOURS / "eventing",
        "knative.dev/eventing",
        f"knative.dev/eventing/cmd/{name}",
        cache="neighbours/any-port",
        says_version=(),
        edits=(ANY_PORT,),
    )


CONTROLLER, WEBHOOK = _of_eventing("controller"), _of_eventing("webhook")
METACONTROLLER = Program(
    "metacontroller",
    NEIGHBOURS / "metacontroller",
    "github.com/metacontroller/metacontroller",
    "metacontroller",
    cache="neighbours",
    link_flags=lambda version: f"-s -w -X main.version={version}",
    says_version=(),
)
PROGRAMS = (CONTROLLER, WEBHOOK, METACONTROLLER)


def found() -> Mapping[str, Path]:
    """All programs by name.

    Raises:
        Missing: one is nowhere; says which command prepares it.
    """
    return go_programs.found(PROGRAMS, f"run `{COMMAND}`")


def manifests() -> Path:
    """The folder `config/core` of the module: CRDs, roles and ConfigMaps as their authors ship them."""
    return go_programs.module_folder(CONTROLLER) / "config" / "core"


def metacontroller_manifests() -> Path:
    """The same of Metacontroller: its CRDs, and its service account with its rights."""
    return go_programs.module_folder(METACONTROLLER) / "manifests" / "production"


if __name__ == "__main__":
    go_programs.run(PROGRAMS)

"""Our stand-in for an ingress: its own tests, in its own language."""

from __future__ import annotations

import os
import subprocess

import pytest

from infra.cluster import programs
from infra.programs import go_programs


@pytest.mark.short
def test_routes_are_chosen_as_knative_means_them() -> None:
    environment = {**os.environ, "GOWORK": "off", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
    # Built in the same way as the program, whose parts are there already.
    command = [go_programs.go(), "test", "-trimpath", "."]

    ran = subprocess.run(command, cwd=programs.INGRESS.module, env=environment, capture_output=True, text=True)

    assert ran.returncode == 0, ran.stdout + ran.stderr

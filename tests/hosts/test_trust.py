"""Every client takes the certificates that Go takes on the other Pythons, too, whose own TLS contexts differ from ours.

The tests are those of the other suites, each Python in an environment of its own from the lock file.
"""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.hosts import pythons
from tests.hosts.environments import CACHE, ROOT

TESTS = ("tests/unit/core/test_trust.py", "tests/contract/io/test_trust.py", "tests/control_plane/cli/test_kn_trust.py")
OTHERS = {version: python for version, python in pythons.found().items() if version != pythons.RUNNING}
# An environment from nothing, and a hundred handshakes, on a busy machine.
LONGEST_SECONDS = 280.0


@pytest.mark.parametrize("version", OTHERS)
def test_what_go_takes_is_taken_on(version: str) -> None:
    packages = ("--extra", "laptop", "--extra", "kn", "--group", "dev")
    python = ("uv", "run", "--frozen", "--quiet", "--python", OTHERS[version], *packages)
    ran = subprocess.run(
        [*python, "pytest", "-q", "-p", "no:cacheprovider", *TESTS],
        cwd=ROOT,
        env={**os.environ, "UV_PROJECT_ENVIRONMENT": str(CACHE / f"trust-{version}"), "VIRTUAL_ENV": ""},
        capture_output=True,
        text=True,
        timeout=LONGEST_SECONDS,
    )
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]

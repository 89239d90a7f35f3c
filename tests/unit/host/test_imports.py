"""A function that starts from zero loads no module that it has no use for."""

from __future__ import annotations

import subprocess
import sys

import pytest

MODULES = """
import sys
import headrace.host.serving
from headrace.host.app import application
application({target!r})
print(*sys.modules)
"""
# A client that is the fallback, HTTP clients, manifests, the operator's; what verifies tokens and reads expressions.
NEVER = {"nats", "aiohttp", "requests", "kubernetes", "yaml", "prometheus_client", "functions_framework", "cloudevents"}
NEVER |= {"jwt", "cryptography", "lark"}


def loaded(target: str) -> set[str]:
    """The modules, and the packages that they are in, once the application is made."""
    program = MODULES.format(target=target)
    settings = {"HEADRACE_TOKEN": "x", "PATH": ""}
    names = subprocess.run(
        [sys.executable, "-c", program], env=settings, check=True, capture_output=True, text=True
    ).stdout.split()
    return {".".join(name.split(".")[: at + 1]) for name in names for at in range(name.count(".") + 1)}


@pytest.mark.parametrize(
    ("target", "others"),
    [
        pytest.param(
            "receive",
            {
                "headrace.io.http",
                "headrace.forward",
                "headrace.host.leasing",
                "headrace.reconcile",
                "headrace.core.manifest.manifest",
            },
            id="receive",
        ),
        pytest.param(
            "forward",
            {
                "headrace.receive.story",
                "headrace.host.receiving",
                "headrace.reconcile",
                "headrace.core.manifest.manifest",
            },
            id="forward",
        ),
    ],
)
def test_a_function_loads_nothing_that_it_has_no_use_for(target, others):
    found = loaded(target)
    assert not found & (NEVER | others)
    assert {"headrace.io.nats.client", "uvicorn", f"headrace.{target}"} <= found

"""The name and the version of the program that runs, and how a shell asks it for completions."""

from __future__ import annotations

import sys
from pathlib import PurePath


def version() -> str:
    """The installed version."""
    from importlib import metadata

    try:
        return metadata.version("function")
    except metadata.PackageNotFoundError:
        return "(not installed)"


def name() -> str:
    """The name by which the program was called: the plugin's, or its own."""
    return "kn jetstream" if PurePath(sys.argv[0]).stem == "kn-jetstream" else "headrace"


def completion_variable() -> str:
    """The environment variable by which a shell asks for completions."""
    return f"_{name().replace(' ', '_').upper()}_COMPLETE"

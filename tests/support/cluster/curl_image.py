"""An image with curl and a shell, from this machine's own: Debian's curl with its libraries, and busybox."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from infra.cluster import machine
from infra.cluster.archive import Image

NAME = "dev.local/curl:1"
# A library as `ldd` lists it: behind the arrow, or the loader alone.
_LIBRARY = re.compile(r"(?:=> |^\s+)(?P<path>/\S+) \(0x", re.MULTILINE)


def image() -> Image:
    curl = shutil.which("curl")
    assert curl is not None, "there is no curl: the Debian package curl has it"
    files = {machine.busybox(): "/bin/sh", Path(curl): "/bin/curl", **_libraries(curl)}
    return Image(NAME, files, ["/bin/sh"])


def _libraries(program: str) -> Mapping[Path, str]:
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return {Path(found["path"]): found["path"] for found in _LIBRARY.finditer(listed)}

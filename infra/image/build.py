"""The image from the Containerfile as it stands, and the image as a file."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from infra.cache import say
from infra.image import base, outside
from infra.image.store import Store

ROOT = base.CONTAINERFILE.parent
NAME = "localhost/headrace:0.1.0"


def build(store: Store, name: str = NAME, *, fresh: bool = False) -> str:
    """Build it on the base that is made here; its id.

    Args:
        fresh: take no layer of an earlier build.
    """
    base.have(store)
    began, moment = time.monotonic(), commit_time()
    words = ["build", "--isolation=chroot", "--pull=never", "--identity-label=false", f"--timestamp={moment}"]
    words += [f"--registries-conf={store.registries}", "--no-cache" if fresh else "--layers"]
    words += [f"--volume={volume}" for volume in outside.volumes()]
    words += [f"--build-arg={argument}" for argument in (f"SOURCE_DATE_EPOCH={moment}", *outside.arguments())]
    store.show(*words, f"--tag={name}", str(ROOT))
    image = store.said("inspect", "--type=image", "--format={{.FromImageID}}", name)
    say(f"{name}: {image}, built in {time.monotonic() - began:.0f} s")
    return image


def archive(store: Store, name: str, target: Path) -> None:
    """Write the image to a file, an OCI archive, in which it has that name. A file of that name is replaced."""
    partial = target.with_name(f".{target.name}.partial")
    partial.unlink(missing_ok=True)
    store.said("push", "--quiet", name, f"oci-archive:{partial}:{name}")
    partial.replace(target)
    say(f"{target}: {target.stat().st_size / 1e6:.0f} MB")


def commit_time() -> int:
    """Of what is built: the same from the same commit. 0 where there is neither git nor SOURCE_DATE_EPOCH."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    done = subprocess.run(command, capture_output=True, text=True)
    return int(done.stdout) if done.returncode == 0 else 0

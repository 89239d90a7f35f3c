"""The image from the Containerfile as it stands, and the image as a file."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

from infra.cache import say
from infra.image import base, outside
from infra.image.store import Store

ROOT = base.CONTAINERFILE.parent
NAME = "localhost/headrace:0.1.0"
# All that the Containerfile copies.
COPIED = ("Containerfile", "infra/image/tools.txt", "pyproject.toml", "uv.lock", "README.md", "functions", "operator")


def build(store: Store, name: str = NAME, *, fresh: bool = False, pinned: str = "", context: Path = ROOT) -> str:
    """Build it on the base that is made here; its id.

    Args:
        fresh: take no layer of an earlier build.
        pinned: a digest, `sha256:…`: build on the real base of that digest, which is pulled where it is not here.
        context: the folder with what is copied.
    """
    began, moment = time.monotonic(), commit_time()
    if not pinned:
        base.have(store)
    where = [f"--registries-conf={store.registries_of_pulls}", "--pull=true"] if pinned else []
    where = where or [f"--registries-conf={store.registries}", "--pull=never"]
    words = ["build", "--isolation=chroot", "--identity-label=false", f"--timestamp={moment}", *where]
    # With layers in any case: without them the image is packed otherwise.
    words += ["--layers", *(["--no-cache"] if fresh else []), f"--build-arg=DIGEST={f'@{pinned}' if pinned else ''}"]
    words += [f"--volume={volume}" for volume in outside.volumes()]
    words += [f"--build-arg={argument}" for argument in (f"SOURCE_DATE_EPOCH={moment}", *outside.arguments())]
    store.show(*words, f"--tag={name}", str(context))
    image = store.said("inspect", "--type=image", "--format={{.FromImageID}}", name)
    say(f"{name}: {image}, built in {time.monotonic() - began:.0f} s")
    return image


def archive(store: Store, name: str, target: Path) -> str:
    """Write the image to a file, an OCI archive, in which it has that name. A file in the way is replaced.

    Returns:
        The digest by which a registry has it.
    """
    partial = target.with_name(f".{target.name}.partial")
    partial.unlink(missing_ok=True)
    store.said("push", "--quiet", name, f"oci-archive:{partial}:{name}")
    partial.replace(target)
    say(f"{target}: {target.stat().st_size / 1e6:.0f} MB")
    return digest_in(target)


def digest_in(archive: Path) -> str:
    """The digest of the one image of an OCI archive, by which a registry has it."""
    with tarfile.open(archive) as whole:
        index = whole.extractfile("index.json")
        assert index is not None, f"{archive} is no OCI archive"
        (found,) = json.load(index)["manifests"]
    return str(found["digest"])


def copied(target: Path) -> Path:
    """What the Containerfile copies, in another folder, with other times and nothing that a run has left between."""
    for name in COPIED:
        source, place = ROOT / name, target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, place, copy_function=shutil.copyfile, ignore=ignore)
        else:
            shutil.copyfile(source, place)
    return target


def commit_time() -> int:
    """Of what is built: the same from the same commit. 0 where there is neither git nor SOURCE_DATE_EPOCH."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    done = subprocess.run(command, capture_output=True, text=True)
    return int(done.stdout) if done.returncode == 0 else 0

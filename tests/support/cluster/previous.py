"""The version before: the image and the manifests of an earlier commit, for an upgrade.

It is the last one with the installation's first shape: `reconcile` a Deployment, two operators, Host URLs always on.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

from infra.cache import CACHE, locked, say
from infra.cluster.names import HOST
from infra.image import base, build, outside
from infra.image.store import Store

COMMIT = "b102823"
IMAGE = f"{HOST}/headrace:{COMMIT}"
_ROOT = Path(__file__).resolve().parents[3]
_KEPT = CACHE / "cluster" / "images"
# What stopped its image from being built, and its operator from trusting this cluster's CA on Python 3.13.
_TRUSTED = "    context = ssl.create_default_context(cafile=str(authority))\n"
_MENDED = (
    ("Containerfile", "unchecked-hash", "UNCHECKED_HASH"),
    (
        "operator/headrace_operator/kube/access.py",
        _TRUSTED,
        f"{_TRUSTED}    context.verify_flags &= ~ssl.VERIFY_X509_STRICT\n",
    ),
)


def manifests() -> str:
    """Its `infra/install.yaml`, with its image."""
    text = _git("show", f"{COMMIT}:infra/install.yaml")
    return text.replace("headrace.example/headrace:0.1.0", IMAGE)


def archive() -> Path:
    """Its image as a file; built once per machine."""
    target = _KEPT / f"headrace-{COMMIT}-{len(_MENDED)}.tar"
    _KEPT.mkdir(parents=True, exist_ok=True)
    with locked(_KEPT / "headrace-previous.lock"):
        if not target.exists():
            _build(target)
    return target


def _build(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, Store() as store:
        tree = Path(folder)
        packed = subprocess.run(["git", "-C", str(_ROOT), "archive", COMMIT], check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=packed, check=True)
        for name, old, new in _MENDED:
            _mend(tree / name, old, new)
        recipe = tree / "Containerfile"
        recipe.write_text(_told_of_outside(recipe.read_text(encoding="utf-8")), encoding="utf-8")
        say(f"building the image of {COMMIT}, to upgrade from it")
        base.have(store)
        words = ["build", "--isolation=chroot", "--pull=never", f"--registries-conf={store.registries}", "--layers"]
        words += [f"--volume={volume}" for volume in outside.volumes()]
        words += [f"--build-arg={argument}" for argument in outside.arguments()]
        store.show(*words, f"--tag={IMAGE}", folder)
        build.archive(store, IMAGE, target)


def _mend(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text, f"{file.name} of {COMMIT} has no {old!r}"
    file.write_text(text.replace(old, new), encoding="utf-8")


def _told_of_outside(recipe: str) -> str:
    """Takes mirrors and CAs as arguments, as today's does."""
    names = dict.fromkeys(argument.partition("=")[0] for argument in outside.arguments())
    told = "".join(f"ARG {name}\n" for name in names if f"ARG {name}" not in recipe)
    return re.sub(r"(FROM \S+ AS build\n)", rf"\1{told}", recipe, count=1)


def _git(*words: str) -> str:
    return subprocess.run(["git", "-C", str(_ROOT), *words], check=True, capture_output=True, text=True).stdout

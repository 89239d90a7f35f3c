"""A release of the image: two builds that are the same, the list of what is in it, the statement of how it was made.

Everything is written to a folder; where a registry is named, all of it is pushed there, the two documents attached to
the image as OCI 1.1 has it, by its digest.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from infra.cache import say
from infra.image import build, provenance
from infra.image.base import wanted
from infra.image.store import Failed, Store
from infra.programs import go_programs, tool_binaries

BILL_KIND, STATEMENT_KIND = "application/vnd.cyclonedx+json", "application/vnd.in-toto+json"
PINS = ("Containerfile", "uv.lock", "infra/image/tools.txt")


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be released.

    Attributes:
        pinned: the digest of the base; empty for the one that is made here, which nobody should publish.
        push: repository in a registry; empty for none.
        source, builder: URIs for the statement.
    """

    name: str
    pinned: str
    out: Path
    push: str
    source: str = ""
    builder: str = ""


def twice(store: Store, name: str, target: Path, pinned: str = "") -> str:
    """Build it two times, from this folder and from a copy with other times, and no layer of before; the digest.

    Raises:
        Failed: the two differ.
    """
    with tempfile.TemporaryDirectory(dir=store.scratch) as folder:
        build.build(store, name, fresh=True, pinned=pinned)
        digest = build.archive(store, name, target)
        again = f"{name}-again"
        build.build(store, again, fresh=True, pinned=pinned, context=build.copied(Path(folder) / "source"))
        other = build.archive(store, again, Path(folder) / "again.tar")
        store.said("rmi", again)
    if digest != other:
        raise Failed(f"two builds of one commit differ: {digest} and {other}")
    say(f"two builds, one digest: {digest}")
    return digest


def release(store: Store, asked: Asked) -> str:
    """All of it; the digest of the image.

    Raises:
        Failed: it is to be pushed on a base without a digest, something is not committed, the two builds differ, or a
            tool failed.
    """
    if asked.push and not asked.pinned:
        raise Failed(
            "a base that is made here is for trying out: what is pushed names its base by digest, --base sha256:…"
        )
    if _git("status", "--porcelain"):
        raise Failed("there is something that is not committed, so no commit could be named: commit it, or remove it")
    commit, began = _git("rev-parse", "HEAD"), datetime.now(UTC)
    asked.out.mkdir(parents=True, exist_ok=True)
    image, bill, statement = (asked.out / name for name in ("image.oci.tar", "bill.cdx.json", "provenance.json"))
    digest = twice(store, asked.name, image, asked.pinned)
    bill_of_materials(image, asked.name, bill)
    known = provenance.Build(
        commit=commit,
        source=asked.source,
        base=f"{wanted()[0].partition('/')[2]}{f'@{asked.pinned}' if asked.pinned else ''}",
        epoch=build.commit_time(),
        files={path: _sha256(build.ROOT / path) for path in PINS},
        builder=asked.builder or provenance.BY_HAND,
        tools={"buildah": store.said("--version").split()[2]},
        began=began,
        ended=datetime.now(UTC),
    )
    made = provenance.statement(asked.push or asked.name, digest, known, _sha256(bill))
    statement.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    sums = "".join(f"{_sha256(each)}  {each.name}\n" for each in (image, bill, statement))
    (asked.out / "SHA256SUMS").write_text(sums, encoding="ascii")
    if asked.push:
        _push(asked, digest, image, bill, statement)
    return digest


def bill_of_materials(archive: Path, name: str, target: Path) -> None:
    """Write the list of all packages in an image, as CycloneDX has it.

    Raises:
        Failed: it can't be read.
    """
    _tool("syft", "scan", f"oci-archive:{archive}", "--quiet", "--source-name", name, "-o", f"cyclonedx-json={target}")


def _push(asked: Asked, digest: str, image: Path, bill: Path, statement: Path) -> None:
    """Push the image under its digest and the tag of its version, and attach the two documents."""
    tag = asked.name.rpartition(":")[2]
    _tool("oras", "cp", "--from-oci-layout", f"{image}@{digest}", f"{asked.push}:{tag}")
    for kind, file in ((BILL_KIND, bill), (STATEMENT_KIND, statement)):
        # In its folder: the name of the file goes along.
        _tool(
            "oras", "attach", "--artifact-type", kind, f"{asked.push}@{digest}", f"{file.name}:{kind}", at=file.parent
        )
    say(f"{asked.push}@{digest}: pushed, with {bill.name} and {statement.name} attached")


def _tool(name: str, *words: str, at: Path = build.ROOT) -> None:
    program = {"syft": tool_binaries.SYFT, "oras": tool_binaries.ORAS}[name]
    try:
        place = tool_binaries.found(program)[name]
    except go_programs.Missing as missing:
        raise Failed(str(missing)) from missing
    environment = {**os.environ, "SYFT_CHECK_FOR_APP_UPDATE": "false", "SYFT_FILE_METADATA_SELECTION": "none"}
    done = subprocess.run([place, *words], cwd=at, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"`{name} {words[0]}` ended with {done.returncode}: {(done.stderr + done.stdout)[-2000:]}")


def _git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(build.ROOT), *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"`git {words[0]}` ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout.strip()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

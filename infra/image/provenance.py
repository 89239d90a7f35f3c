"""How an image came to be, as an in-toto statement with the predicate of SLSA's provenance (v1). Pure.

Whoever builds signs it: an unsigned statement proves nothing, and names what to build again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

BUILD_TYPE = "https://headrace.dev/builds/containerfile/v1"
BY_HAND = "https://headrace.dev/builders/by-hand"
_SOURCE = "the source"


@dataclass(frozen=True, slots=True)
class Build:
    """What has taken part in it.

    Attributes:
        commit: of the source; `source` says where that is, empty where nobody has said.
        base: the base's name with its digest; the name alone where it was made on the machine.
        epoch: the moment that stands for all times in the image, seconds since 1970.
        files: of the source, those that pin what is fetched, with their sha256.
        builder: a URI of who has built it; `tools` are the versions of the programs that have a say in the digest.
    """

    commit: str
    source: str
    base: str
    epoch: int
    files: Mapping[str, str]
    builder: str
    tools: Mapping[str, str]
    began: datetime
    ended: datetime


def statement(name: str, digest: str, build: Build, bill: str) -> dict[str, Any]:
    """The statement about an image.

    Args:
        digest: `sha256:…`, of its manifest.
        bill: the sha256 of the list of what is in it.
    """
    where = {"uri": build.source} if build.source else {}
    source = {"name": _SOURCE, **where, "digest": {"gitCommit": build.commit}}
    base, _, pinned = build.base.partition("@sha256:")
    foundation = {"name": base, **({"digest": {"sha256": pinned}} if pinned else {})}
    files = [{"name": path, "digest": {"sha256": sha}} for path, sha in build.files.items()]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest.removeprefix("sha256:")}}],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {
                    "containerfile": "Containerfile",
                    "buildArgs": {"DIGEST": f"@sha256:{pinned}" if pinned else "", "SOURCE_DATE_EPOCH": build.epoch},
                },
                "resolvedDependencies": [source, foundation, *files],
            },
            "runDetails": {
                "builder": {"id": build.builder, "version": dict(build.tools)},
                "metadata": {"startedOn": _moment(build.began), "finishedOn": _moment(build.ended)},
                "byproducts": [{"name": "bill of materials", "digest": {"sha256": bill}}],
            },
        },
    }


def _moment(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")

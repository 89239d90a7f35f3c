"""What a `headrace up` tells of its channels: a file beside its announcement, replaced as a whole when it changes.

It stands in for the API server that a laptop has not: objects with their status, for the verbs to show conditions.
Knows files, no processes. Written by `headrace_cli.laptop.up`, read by `headrace_cli.access.place`, for the verbs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Object = Mapping[str, Any]

SUFFIX = ".channels"


@dataclass(frozen=True, slots=True)
class Told:
    """What is known of the channels of one `headrace up`.

    Attributes:
        objects: NatsJetStreamChannels with their status, as an API server shows them; of `spec` only who subscribes,
            and `error` beside it where reconciling fails.
        files: why the manifest files could not be read again; empty when they are what is served.
    """

    objects: tuple[Object, ...] = ()
    files: str = ""


def file_of(announcement: Path) -> Path:
    """The file that belongs to an announcement."""
    return announcement.with_suffix(SUFFIX)


class Teller:
    """Writes the file; one that can't be written costs the convenience only."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._written = ""
        self.files = ""

    def tell(self, objects: Iterable[Object]) -> None:
        """Write how things stand, if that has changed."""
        text = json.dumps({"objects": [_brief(each) for each in objects], "files": self.files})
        if self._path is None or text == self._written:
            return
        beside = self._path.with_suffix(".new-channels")
        with suppress(OSError):
            with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.write(text)
            beside.replace(self._path)
            self._written = text


def read(path: Path) -> Told:
    """What was told last; nothing when there is none, or it is damaged."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        body = json.loads(path.read_text())
        return Told(tuple(body["objects"]), str(body["files"]))
    return Told()


def _brief(body: Object) -> Object:
    subscribers = (body.get("spec") or {}).get("subscribers") or ()
    named = [{"uid": each.get("uid"), "name": each.get("name")} for each in subscribers]
    metadata = {name: body["metadata"].get(name) for name in ("namespace", "name", "uid", "generation")}
    return {
        "metadata": metadata,
        "spec": {"subscribers": named},
        "status": body.get("status") or {},
        "error": body.get("error", ""),
    }

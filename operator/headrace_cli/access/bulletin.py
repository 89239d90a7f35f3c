"""The bulletin of a `headrace up`: a file beside its announcement that says how its channels stand.

A laptop has no API server, so the bulletin holds the channel objects with their status, and the verbs show conditions
from it. This module knows files, and no processes. `headrace_cli.laptop.up` writes the file, and replaces it as a whole
when something changes; `headrace_cli.access.place` reads it for the verbs.
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
class Bulletin:
    """The state of the channels of one `headrace up`.

    Attributes:
        objects: NatsJetStreamChannels with their status, as an API server shows them; `spec` has only the subscribers,
            and `error` stands beside it where reconciling fails.
        files: why the manifest files could not be read again; empty when the files are being served.
    """

    objects: tuple[Object, ...] = ()
    files: str = ""


def file_of(announcement: Path) -> Path:
    """The file that belongs to an announcement."""
    return announcement.with_suffix(SUFFIX)


class BulletinWriter:
    """Writes the file; a file that can't be written costs the convenience only."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._written = ""
        self.files = ""

    def write(self, objects: Iterable[Object]) -> None:
        """Write the channels' state, if it has changed."""
        text = json.dumps({"objects": [_brief(each) for each in objects], "files": self.files})
        if self._path is None or text == self._written:
            return
        beside = self._path.with_suffix(".new-channels")
        with suppress(OSError):
            with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.write(text)
            beside.replace(self._path)
            self._written = text


def newest(path: Path) -> Bulletin:
    """The bulletin in the file now; an empty one when there is no file, or it is damaged."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        body = json.loads(path.read_text())
        return Bulletin(tuple(body["objects"]), str(body["files"]))
    return Bulletin()


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

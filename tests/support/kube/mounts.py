"""A directory as Kubernetes mounts a ConfigMap or a Secret: all files change at once, by one link that is swapped."""

from __future__ import annotations

import itertools
from pathlib import Path

_numbers = itertools.count(1)


class Mount:
    """The directory.

    Attributes:
        path: to hand to whoever reads it.
    """

    def __init__(self, directory: Path, **files: str) -> None:
        """Args:
        files: their text; `__` in a name stands for the dot that a keyword can't have.
        """
        self._directory = directory
        self.path = str(directory)
        directory.mkdir(parents=True, exist_ok=True)
        self.swap(**files)

    def swap(self, **files: str) -> None:
        """Put these files in the place of all that are there, in one step."""
        named = {name.replace("__", "."): text for name, text in files.items()}
        fresh = self._directory / f"..version-{next(_numbers)}"
        fresh.mkdir()
        for name, text in named.items():
            (fresh / name).write_text(text, encoding="utf-8")
        link = self._directory / "..data-next"
        link.symlink_to(fresh.name)
        link.rename(self._directory / "..data")
        for entry in self._directory.iterdir():
            if not entry.name.startswith("..") and entry.name not in named:
                entry.unlink()
        for name in named:
            visible = self._directory / name
            if not visible.is_symlink():
                visible.symlink_to(f"..data/{name}")

"""Files where Spark has them: any file system that Hadoop knows, through Spark's own JVM."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from headrace.core.errors import Misconfigured


@dataclass(frozen=True, slots=True)
class File:
    """Attributes:
    path: the whole path.
    size: bytes; zero for a folder.
    """

    path: str
    name: str
    is_folder: bool
    size: int


class Files:
    """The files under one root. Paths are relative to it, with slashes."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.root = root.rstrip("/")
        jvm = spark._jvm
        if jvm is None:
            raise Misconfigured("this session has no JVM of its own: submit the job with spark-submit", field="spark")
        self._jvm: Any = jvm
        self._system: Any = self._path("").getFileSystem(spark._jsc.hadoopConfiguration())

    def path(self, relative: str) -> str:
        return f"{self.root}/{relative}" if relative else self.root

    def list(self, relative: str = "") -> list[File]:
        """The content of a folder, by name; empty when there is none."""
        path = self._path(relative)
        if not self._system.exists(path):
            return []
        found = [
            File(
                str(one.getPath().toString()),
                str(one.getPath().getName()),
                bool(one.isDirectory()),
                0 if one.isDirectory() else int(one.getLen()),
            )
            for one in self._system.listStatus(path)
        ]
        return sorted(found, key=lambda file: file.name)

    def exists(self, relative: str) -> bool:
        return bool(self._system.exists(self._path(relative)))

    def load(self, relative: str) -> dict[str, Any]:
        stream = self._system.open(self._path(relative))
        try:
            text = self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        found: dict[str, Any] = json.loads(text)
        return found

    def write(self, relative: str, content: dict[str, Any]) -> None:
        """Write a JSON object, whole or not at all: the file is written beside its place, then renamed."""
        half = f"{relative}.half"
        stream = self._system.create(self._path(half), True)
        try:
            stream.write(bytearray(json.dumps(content, indent=1).encode()))
        finally:
            stream.close()
        self.rename(half, relative)

    def rename(self, old: str, new: str) -> None:
        """Raises:
        Misconfigured: the file system refused.
        """
        target = self._path(new)
        self._system.mkdirs(target.getParent())
        if not self._system.rename(self._path(old), target):
            raise Misconfigured(
                f"{self.path(old)} can't be renamed to {self.path(new)}: may we write there?", field=new
            )

    def delete(self, relative: str) -> None:
        """Delete a file or a folder with its content, if it exists."""
        self._system.delete(self._path(relative), True)

    def _path(self, relative: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.path(relative))

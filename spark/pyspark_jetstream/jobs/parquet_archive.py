"""A folder of Parquet files that holds each message of a stream once, however often the job that fills it dies.

    date=2026-01-31/type=order.created/<start>-<end>-<part>.parquet    what readers see
    _headrace/commits/<end>.json        which sequences are in, and which stream they are of
    _headrace/staging/<start>-<end>/    a range before it is in
    _headrace/compaction/<name>/        a partition's files before they replace smaller ones

Spark writes a range into staging. Then the job writes down which files are to be moved (`moves.json`), moves them one
by one, and commits. A run begins by finishing the moves that were written down, and by throwing away files that were
not. So no message is in twice or missing; during the moves a reader may see a part of a range. Only one run may work at
a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headrace.core.errors import Refused
from headrace.core.plural import counted
from pyspark_jetstream.jobs.files import File, Files

COMMITS = "_headrace/commits"
STAGING = "_headrace/staging"
COMPACTION = "_headrace/compaction"
_MOVES = "moves.json"
_PARQUET = ".parquet"


@dataclass(frozen=True, slots=True)
class Commit:
    """A range that the archive holds: `start <= sequence < end`.

    Attributes:
        created: when the stream was made, as its server writes it; another value means another stream.
    """

    stream: str
    created: str
    start: int
    end: int
    rows: int
    files: int


class ParquetArchive:
    def __init__(self, spark: SparkSession, root: str) -> None:
        self._spark = spark
        self._files = Files(spark, root)

    def recover(self) -> None:
        """Finish or throw away the work that an earlier run has left."""
        for folder in self._files.list(STAGING):
            moves = f"{STAGING}/{folder.name}/{_MOVES}"
            if self._files.exists(moves):
                self._move(folder.name, self._files.load(moves))
            else:
                self._files.delete(f"{STAGING}/{folder.name}")
        for folder in self._files.list(COMPACTION):
            moves = f"{COMPACTION}/{folder.name}/{_MOVES}"
            if self._files.exists(moves):
                self._replace(folder.name, self._files.load(moves))
            else:
                self._files.delete(f"{COMPACTION}/{folder.name}")

    def last(self) -> Commit | None:
        """The newest commit; None in an empty archive."""
        names = [file.name for file in self._files.list(COMMITS) if file.name.endswith(".json")]
        return Commit(**self._files.load(f"{COMMITS}/{names[-1]}")) if names else None

    def add(self, frame: DataFrame, stream: str, created: str, start: int, end: int) -> Commit:
        """Add a range.

        Args:
            frame: the range's rows, with the columns date and type.
        """
        name = f"{start:020d}-{end:020d}"
        staging = f"{STAGING}/{name}"
        self._files.delete(staging)
        frame.write.partitionBy("date", "type").parquet(self._files.path(staging))
        found = list(self._parquet(staging))
        rows = self._rows([file for _, file in found])
        commit = Commit(stream, created, start, end, rows, len(found))
        targets = {f"{folder}/{file.name}": f"{folder}/{name}-{file.name}" for folder, file in found}
        self._files.write(f"{staging}/{_MOVES}", {"commit": asdict(commit), "moves": targets})
        self._move(name, self._files.load(f"{staging}/{_MOVES}"))
        return commit

    def compact(self, before: str, least_files: int, target_bytes: int) -> Iterator[tuple[str, int, int]]:
        """Replace many small files of a partition by few large ones.

        Args:
            before: a date; its files and later ones are left alone, as more may come.
            least_files: partitions with fewer are left as they are.

        Yields:
            partition, files before, files after.
        """
        for date in self._files.list():
            if not date.is_folder or not date.name.startswith("date=") or date.name >= f"date={before}":
                continue
            for kind in self._files.list(date.name):
                partition = f"{date.name}/{kind.name}"
                files = [file for file in self._files.list(partition) if file.name.endswith(_PARQUET)]
                wanted = max(1, -(-sum(file.size for file in files) // target_bytes))
                if len(files) >= max(least_files, wanted + 1):
                    yield partition, len(files), self._compact(partition, files, wanted)

    def _compact(self, partition: str, files: list[File], wanted: int) -> int:
        # Named by the files that go in, so that no later compaction has the name.
        name = f"{files[0].name[:20]}-{files[-1].name[:41]}-{len(files)}"
        folder = f"{COMPACTION}/{name}"
        self._files.delete(folder)
        frame = self._spark.read.parquet(*[file.path for file in files])
        frame.coalesce(wanted).sortWithinPartitions("stream", "sequence").write.parquet(self._files.path(folder))
        made = [file for file in self._files.list(folder) if file.name.endswith(_PARQUET)]
        before, after = self._rows(files), self._rows(made)
        if before != after:
            raise Refused(
                f"compacting {partition} has made {counted(after, 'row')} of {before}: it is left as it is", status=500
            )
        first = files[0].name[:20]
        moves = {
            "partition": partition,
            "adds": {file.name: f"{first}-compacted-{file.name}" for file in made},
            "removes": [file.name for file in files],
        }
        self._files.write(f"{folder}/{_MOVES}", moves)
        self._replace(name, moves)
        return len(made)

    def _move(self, name: str, plan: dict[str, Any]) -> None:
        for old, new in plan["moves"].items():
            if self._files.exists(f"{STAGING}/{name}/{old}"):
                self._files.rename(f"{STAGING}/{name}/{old}", new)
        commit = plan["commit"]
        path = f"{COMMITS}/{commit['end']:020d}.json"
        if not self._files.exists(path):
            self._files.write(path, commit)
        self._files.delete(f"{STAGING}/{name}")

    def _replace(self, name: str, moves: dict[str, Any]) -> None:
        partition = moves["partition"]
        for old, new in moves["adds"].items():
            if self._files.exists(f"{COMPACTION}/{name}/{old}"):
                self._files.rename(f"{COMPACTION}/{name}/{old}", f"{partition}/{new}")
        for old in moves["removes"]:
            self._files.delete(f"{partition}/{old}")
        self._files.delete(f"{COMPACTION}/{name}")

    def _parquet(self, folder: str) -> Iterator[tuple[str, File]]:
        """The files below a folder, each with the path of its partition."""
        for date in self._files.list(folder):
            for kind in self._files.list(f"{folder}/{date.name}") if date.is_folder else ():
                for file in self._files.list(f"{folder}/{date.name}/{kind.name}"):
                    if file.name.endswith(_PARQUET):
                        yield f"{date.name}/{kind.name}", file

    def _rows(self, files: list[File]) -> int:
        return self._spark.read.parquet(*[file.path for file in files]).count() if files else 0

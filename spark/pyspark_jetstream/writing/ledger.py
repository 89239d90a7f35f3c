"""The rows that a named run had when it broke off, so that a repetition with other rows is found out in time.

A task writes down digests of its rows, eight bytes each, before it publishes them: in the stream of the commit marker,
and only for a batch with a `runId` and `commitMarker`. The digests of the first try count: a later try has to have all
of them, and may have more. They are deleted when the run is complete. Subjects:

    <the marker's>.<partition>.<try>.<any>      the digests of some rows, one behind the other
"""

from __future__ import annotations

import secrets
import time
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from headrace.core.errors import Refused, Unavailable
from headrace.core.plural import counted
from pyspark_jetstream.client import BlockingApi

DIGEST_BYTES = 8
# For one task; they take 8 MB in the marker's stream. Rows behind them are not compared before the run is complete.
MOST_DIGESTS = 1_000_000
_PAUSE_SECONDS = 0.1

# Digests by their partition.
Digests = Mapping[int, set[bytes]]


class Ledger:
    """The digests of one run on one target."""

    def __init__(self, jetstream: BlockingApi, stream: str, subject: str) -> None:
        """Args:
        subject: the subject of the run's marker.
        """
        self._jetstream = jetstream
        self._stream = stream
        self._subject = subject
        # Each attempt at a task has its own token, since two of them may run at a time.
        self._token = secrets.token_hex(8)
        self._written = 0

    def add(self, partition: int, attempt: str, digests: Iterable[bytes]) -> None:
        """Note digests; they are stored when this returns.

        Raises:
            Unavailable: there is no answer, for as long as the access's timeout.
            Refused: the stream does not take them.
        """
        data = b"".join(digests)[: (MOST_DIGESTS - self._written) * DIGEST_BYTES]
        if not data:
            return
        connection = self._jetstream.connection
        subject = f"{self._subject}.{partition}.{attempt}.{self._token}{self._written}"
        deadline = time.monotonic() + connection.access.timeout
        while True:
            try:
                answer = connection.request(subject, data)
                break
            except Unavailable:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE_SECONDS)
        if b'"seq"' not in answer.data:
            said = answer.data.decode("utf-8", "replace") or "no stream captures it"
            raise Refused(f"{subject} was not stored in {self._stream}: {said}", status=507)
        self._written += len(data) // DIGEST_BYTES

    def of(self, attempt: str, partition: int | None = None) -> Digests:
        """The digests of one try, in one partition or in all that it had begun."""
        found: dict[int, set[bytes]] = {}
        for at, data in self._chunks(f"{self._subject}.{'*' if partition is None else partition}.{attempt}.*"):
            digests = (data[place : place + DIGEST_BYTES] for place in range(0, len(data), DIGEST_BYTES))
            found.setdefault(at, set()).update(digests)
        return found

    def forget(self) -> None:
        """Purge the digests of a complete run. Without the right to purge, they stay without use."""
        with suppress(Refused, Unavailable):
            self._jetstream.call(f"STREAM.PURGE.{self._stream}", {"filter": f"{self._subject}.>"})

    def _chunks(self, subjects: str) -> Iterator[tuple[int, bytes]]:
        sequence = 1
        while (message := self._jetstream.message_after(self._stream, sequence, (subjects,))) is not None:
            yield int(str(message["subject"]).split(".")[-3]), b64decode(message["data"])
            sequence = int(message["seq"]) + 1


def refuse_missing(run: str, partition: int, had: int, missing: int) -> None:
    """Raises:
    Refused: a partition lacks rows that it had in the first try.
    """
    if missing:
        raise Refused(
            f"run {run} was begun with other rows: of {counted(had, 'row')} that partition {partition} had when it "
            f"broke off, {missing} {'is' if missing == 1 else 'are'} not among those of now. Nothing of this partition "
            "was written. Give the rows of the first time, spread over the tasks as they were, to write what is "
            "missing; or another runId for other rows",
            status=409,
        )


def refuse_uncovered(run: str, stream: str, had: Digests, has: Digests, *, by_partition: bool) -> None:
    """Compare whole tries, when all is written.

    Args:
        by_partition: ids contain the partition, so a row that has moved to another partition is another message.

    Raises:
        Refused: rows of the first try are missing now.
    """
    everywhere = set[bytes]().union(*has.values())
    missing = sum(len(rows - (has.get(at, set()) if by_partition else everywhere)) for at, rows in had.items())
    if missing:
        total = sum(map(len, had.values()))
        raise Refused(
            f"run {run} was begun with other rows: of {counted(total, 'row')} that it had when it broke off, {missing} "
            f"{'is' if missing == 1 else 'are'} not among those of now, which are in stream {stream}, too. The run is "
            "not complete: write it again with the rows of the first time, spread over as many tasks",
            status=409,
        )

"""The commit marker: how far a run has got, for repetitions that come when the server has forgotten the ids.

There is one message per run and target, the newest only, in a stream of its own (`headrace_spark`). The first task of
an epoch writes down where the target ended before it (compare and set, so that one task wins). The driver adds that the
epoch is complete, once all of its tasks are done. A repeated epoch that is complete is passed over; any other is
written again. When the marker is so old that the target may have forgotten ids, the ids behind the noted place are read
from the target first. So an epoch is stored once, as long as the target keeps its messages. The marker costs a look-up
per task and two publishes per epoch; a repetition reads all messages that were stored since.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from typing import Any

from headrace.core.errors import Misconfigured, Refused, Unavailable
from headrace.core.nats.api_error import MESSAGE_NOT_FOUND, ApiError
from headrace.core.nats.stored_message import nanoseconds
from headrace.core.plural import counted
from headrace.core.quoting import quoted
from pyspark_jetstream.client import BlockingApi, read_pulled
from pyspark_jetstream.writing.ledger import Ledger
from pyspark_jetstream.writing.target import Target

# Version 1 had no tries; it can still be read.
VERSION = 2

_WRONG_LAST_SEQUENCE = 10071
_NAME_IN_USE = 10058
_SUBJECTS = "headrace.spark.commits"
# The separator of columns; no type that is written has it.
_COLUMNS = ", "
_TRIES = 20
_NANOSECONDS = 1_000_000_000
_ID = re.compile(rb"\r\nNats-Msg-Id:[ \t]*([^\r]*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Marker:
    """Attributes:
    stream, created: those of the target.
    after: its last sequence before anything of the epoch was written.
    is_complete: all of the epoch is stored.
    rows, content: number of rows of a complete epoch, and the sum of their hashes; empty in an earlier version's.
    begun_by: the try that set it first, and whose digests are in the `ledger`; empty in version 1.
    columns, selection: a batch's columns, and its choice of rows in the words of `runSelection`.
    """

    run: str
    stream: str
    created: str
    epoch: int
    after: int
    is_complete: bool
    rows: int = 0
    v: int = VERSION
    content: str = ""
    begun_by: str = ""
    columns: str = ""
    selection: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """A marker as it lies in its stream."""

    marker: Marker
    sequence: int
    stored_ns: int


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch's description for its marker; empty for an epoch of a streaming query.

    Attributes:
        attempt: names the try at the run; there is one per job.
        columns: names and types of all columns that are written.
        selection: the option `runSelection`.
    """

    attempt: str = "0"
    columns: str = ""
    selection: str = ""


NO_BATCH = Batch()


@dataclass(frozen=True, slots=True)
class Decision:
    """The work of a task on its rows.

    Attributes:
        begins: write a marker for this epoch first.
        passes: write nothing, since all rows are stored.
        reads: ask the target for the ids behind the marker's place first.
    """

    begins: bool = False
    passes: bool = False
    reads: bool = False


def decide(found: Found | None, epoch: int, target: Target) -> Decision:
    """Decide a task's work, purely. Raises Refused when the marker is ahead of the epoch."""
    if found is None or found.marker.epoch < epoch:
        return Decision(begins=True)
    if found.marker.created != target.created:
        # This is another stream of that name, which holds none of our rows.
        return Decision(begins=True)
    if found.marker.epoch > epoch:
        raise Refused(
            f"epoch {epoch} of {found.marker.run} is to be written to {target.stream}, which has epoch "
            f"{found.marker.epoch} already: the checkpoint has gone back; use a new one, or set commitMarker to false",
            status=409,
        )
    if found.marker.is_complete:
        return Decision(passes=True)
    age = (target.now_ns - found.stored_ns) / _NANOSECONDS
    # Half of the window, so that a repetition that is slower than the first try is covered, too.
    return Decision(reads=age > target.window_seconds / 2)


class Markers:
    """The markers of one stream."""

    def __init__(self, jetstream: BlockingApi, stream: str) -> None:
        self._jetstream = jetstream
        self._stream = stream

    def ensure(self, replicas: int) -> None:
        """Make the markers' stream if it does not exist.

        Args:
            replicas: as many as the target has, so that the markers are not lost before it.
        """
        if self._jetstream.stream(self._stream) is not None:
            return
        config = {
            "name": self._stream,
            "subjects": [f"{_SUBJECTS}.>"],
            "max_msgs_per_subject": 1,
            "storage": "file",
            "num_replicas": replicas,
        }
        try:
            self._jetstream.call(f"STREAM.CREATE.{self._stream}", config)
        except ApiError as error:
            if error.err_code != _NAME_IN_USE:
                raise

    def find(self, run: str, target: str) -> Found | None:
        try:
            said = self._jetstream.call(f"STREAM.MSG.GET.{self._stream}", {"last_by_subj": _subject(run, target)})
        except ApiError as error:
            if error.err_code == MESSAGE_NOT_FOUND:
                return None
            raise
        message = said["message"]
        fields: dict[str, Any] = json.loads(b64decode(message["data"]))
        if fields.get("v") not in (1, VERSION):
            raise Misconfigured(
                f"the commit marker of {run} is of a later version ({fields.get('v')}): update pyspark-jetstream",
                field="commitMarker",
            )
        return Found(Marker(**fields), int(message["seq"]), nanoseconds(str(message["time"])))

    def entered(
        self, run: str, epoch: int, look: Callable[[], Target], batch: Batch = NO_BATCH
    ) -> tuple[Marker, Decision]:
        """Find or make the marker of an epoch; gives it and the task's work.

        Args:
            look: gives the target as it is now.

        Raises:
            Refused: the marker is ahead, or belongs to a batch with another description.
        """
        for _ in range(_TRIES):
            # The target is read first: no row of the epoch may lie before the place that is noted.
            target = look()
            found = self.find(run, target.stream)
            decision = decide(found, epoch, target)
            if not decision.begins:
                assert found is not None, "only what was found can be gone on with"
                refuse_another(found.marker, batch)
                return found.marker, decision
            marker = Marker(
                run,
                target.stream,
                target.created,
                epoch,
                target.last,
                is_complete=False,
                begun_by=batch.attempt,
                columns=batch.columns,
                selection=batch.selection,
            )
            if self._set(marker, found.sequence if found is not None else 0):
                return marker, Decision()
        raise Unavailable(f"the commit marker of {run} could not be set in {self._stream}")

    def ledger(self, run: str, target: str) -> Ledger:
        return Ledger(self._jetstream, self._stream, _subject(run, target))

    def complete(self, run: str, target: str, epoch: int, rows: int, content: str = "") -> None:
        """Note that an epoch is stored wholly. The call may be repeated, with the same rows.

        Args:
            content: the sum of a batch's row hashes; empty for a streaming query, whose epochs Spark itself repeats
                unchanged.

        Raises:
            Refused: it was complete before with other rows; the present ones were passed over and are not stored.
        """
        for _ in range(_TRIES):
            found = self.find(run, target)
            if found is None or found.marker.epoch != epoch:
                raise Refused(f"the commit marker of {run} is not at epoch {epoch}: is it written twice?", status=409)
            if found.marker.is_complete:
                if content:
                    refuse_others(found.marker, rows, content)
                return
            done = replace(found.marker, is_complete=True, rows=rows, content=content, v=VERSION)
            if self._set(done, found.sequence):
                return
        raise Unavailable(f"the commit marker of {run} could not be set in {self._stream}")

    def _set(self, marker: Marker, last: int) -> bool:
        """Whether the marker is known to be set; if not, the caller looks again."""
        headers = {"Nats-Expected-Last-Subject-Sequence": str(last)}
        data = json.dumps(asdict(marker)).encode()
        try:
            answer = self._jetstream.connection.request(_subject(marker.run, marker.stream), data, headers=headers)
        except Unavailable:
            return False
        said = json.loads(answer.data or b"{}")
        error = said.get("error")
        if error and error.get("err_code") != _WRONG_LAST_SEQUENCE:
            raise Refused(f"the commit marker was not stored in {self._stream}: {error.get('description')}", status=507)
        return "seq" in said and not error


def refuse_others(complete: Marker, rows: int, content: str) -> None:
    """Raises:
    Refused: the run was completed with other rows.
    """
    if rows == complete.rows and complete.content in ("", content):
        return
    others = counted(rows, "other") if rows == complete.rows else f"{rows}"
    raise Refused(
        f"run {complete.run} was complete before, with {counted(complete.rows, 'row')} in stream {complete.stream}, "
        f"and is given {others} now: nothing of them was written. Give another runId for other rows; of the same run "
        "there is nothing left to write",
        status=409,
    )


def refuse_another(begun: Marker, batch: Batch) -> None:
    """Raises:
    Refused: the run was begun with another batch, as its description shows before any row is read.
    """
    had, has = set(begun.columns.split(_COLUMNS)), set(batch.columns.split(_COLUMNS))
    columns = ("columns", _COLUMNS.join(sorted(had - has)), _COLUMNS.join(sorted(has - had)))
    for what, before, now in (("runSelection", begun.selection, batch.selection), columns):
        # Earlier versions noted neither columns nor selection.
        if before == now or not (begun.columns if what == "columns" else before):
            continue
        state = "was complete before" if begun.is_complete else "was begun"
        raise Refused(
            f"run {begun.run} {state} in stream {begun.stream} with {what} {quoted(before, 500)}, and is given "
            f"{quoted(now, 500)} now: nothing was written. Give the same again to write what is missing, or another "
            "runId for other rows",
            status=409,
        )


def ids_behind(jetstream: BlockingApi, marker: Marker, target: Target, subject: str, prefix: str) -> set[bytes]:
    """The ids with a prefix on a subject of the target since a marker was set."""
    found: set[bytes] = set()
    start = prefix.encode()
    for chunk in read_pulled(jetstream, target.stream, marker.after + 1, target.last + 1, (subject,)):
        for block in chunk.blocks:
            match = _ID.search(block)
            if match is not None and match[1].startswith(start):
                found.add(match[1])
    return found


def _subject(run: str, target: str) -> str:
    """The marker's subject; a digest, since both names may hold characters that no subject may."""
    digest = blake2b(f"{len(run)}:{run}{target}".encode(), digest_size=16).hexdigest()
    return f"{_SUBJECTS}.{digest}"

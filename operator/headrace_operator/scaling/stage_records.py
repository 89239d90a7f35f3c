"""The times at which un-acked events are due again, read from the stage records in an aside stream.

`forward` writes one record for each consumer and sequence before it NAKs with a delay, and deletes it when the event is
settled. Here a scaler finds the due times that no lease has reported: after its start all of them, later all but the
earliest of each lease. It reads each record once, since a cursor over the sequences of the aside stream makes every
further look cheap.
"""

from __future__ import annotations

import base64
import json
import math
from typing import Any

from headrace.core.names import Channel
from headrace.core.nats.api_error import MESSAGE_NOT_FOUND, STREAM_NOT_FOUND, ApiError
from headrace.io.jetstream.api import JetStreamApi

# Reading so many takes about half a second; the next look reads the rest.
RECORDS_PER_LOOK = 2_000


class StageRecords:
    """The due times of one channel's stage records, by consumer."""

    def __init__(self, api: JetStreamApi, channel: Channel, aside: str) -> None:
        self._api = api
        self._aside = aside
        self._filter = channel.aside_subjects.removesuffix(">") + "stage.*.*"
        self._cursor = 1
        self._dues: dict[str, dict[str, float]] = {}

    async def load(self, now: float) -> None:
        """Read the records that were written since the last look.

        Args:
            now: seconds since the epoch by our own clock; a due time later than now plus the record's own wait is cut
                to that.

        Raises:
            Unavailable: JetStream did not answer.
            ApiError: JetStream refused.
        """
        stream = await self._api.find(f"STREAM.INFO.{self._aside}")
        newest = int(stream["state"]["last_seq"]) if stream else 0
        if newest < self._cursor - 1:
            # This is another stream of that name: the one that we knew is gone with its records.
            self._cursor, self._dues = 1, {}
        for _ in range(RECORDS_PER_LOOK):
            record = await self._next() if self._cursor <= newest else None
            if record is None:
                self._cursor = max(self._cursor, newest + 1)
                return
            self._keep(record, now)
            self._cursor = int(record["seq"]) + 1

    def take(self, consumer: str, now: float) -> tuple[float, ...]:
        """Due times of one consumer, in seconds since the epoch, the earliest first; a past one is given once."""
        dues = self._dues.get(consumer, {})
        self._dues[consumer] = {sequence: due for sequence, due in dues.items() if due > now}
        return tuple(sorted(dues.values()))

    async def _next(self) -> dict[str, Any] | None:
        request = {"seq": self._cursor, "next_by_subj": self._filter}
        try:
            found = await self._api.call(f"STREAM.MSG.GET.{self._aside}", request)
        except ApiError as error:
            if error.err_code in (MESSAGE_NOT_FOUND, STREAM_NOT_FOUND):
                return None
            raise
        message: dict[str, Any] = found["message"]
        return message

    def _keep(self, record: dict[str, Any], now: float) -> None:
        consumer, sequence = str(record["subject"]).split(".")[-2:]
        due = _due(record.get("data", ""), now)
        if due is None:
            # The event is being delivered right now, or the record is damaged: a probing lease will find out.
            self._dues.get(consumer, {}).pop(sequence, None)
        else:
            self._dues.setdefault(consumer, {})[sequence] = due


def _due(data: str, now: float) -> float | None:
    try:
        found = json.loads(base64.b64decode(data))
        due, wait = float(found["due"]), float(found.get("wait", math.inf))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError, AttributeError):
        return None
    # The clock of the process that wrote the record may be ahead of ours.
    return min(due, now + max(0.0, wait)) if math.isfinite(due) else None

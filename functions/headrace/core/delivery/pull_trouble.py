"""A note in the aside stream that a consumer's pulls are refused or break off, for all who look from outside.

`forward` writes the note at the end of a lease that got nothing for that reason; nobody deletes it. The note counts for
as long as the consumer has made no further delivery and events are pending. So the note ends by itself when the pulls
work again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LONGEST_WORDS = 500


@dataclass(frozen=True, slots=True)
class PullTrouble:
    """Why a lease got nothing.

    Attributes:
        words: the server's, or ours when it was silent.
        delivered: how many deliveries the consumer had made by then.
    """

    words: str
    delivered: int

    def to_json(self) -> bytes:
        return json.dumps({"words": self.words[:LONGEST_WORDS], "delivered": self.delivered}).encode()

    def holds(self, info: Mapping[str, Any]) -> bool:
        """Does the trouble last, by the consumer's CONSUMER.INFO?"""
        return int(info.get("num_pending") or 0) > 0 and deliveries(info) == self.delivered


def from_json(data: bytes) -> PullTrouble | None:
    """The inverse of `PullTrouble.to_json`; None for damaged bytes."""
    try:
        body = json.loads(data)
        return PullTrouble(str(body["words"])[:LONGEST_WORDS], int(body["delivered"]))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def deliveries(info: Mapping[str, Any]) -> int:
    return int((info.get("delivered") or {}).get("consumer_seq") or 0)

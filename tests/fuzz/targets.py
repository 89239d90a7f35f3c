"""All targets by name, in the order in which they run."""

from __future__ import annotations

from tests.fuzz import codecs, http, records, wire, words
from tests.fuzz.target import Target

TARGETS: dict[str, Target] = {
    target.name: target for target in (*codecs.TARGETS, *wire.TARGETS, *http.TARGETS, *records.TARGETS, *words.TARGETS)
}

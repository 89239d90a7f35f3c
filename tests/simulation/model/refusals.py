"""The server's refusals as values, each with its own number and words; and our own word for what is not modelled."""

from __future__ import annotations

import json
from typing import Any


class Unmodelled(Exception):
    """Somebody asked for what the model does not know: model it, or don't use it. Nothing is answered by a guess."""


class ApiFault(Exception):
    """The `error` member of an answer."""

    def __init__(self, code: int, err_code: int, description: str) -> None:
        super().__init__(description)
        self.code = code
        self.err_code = err_code
        self.description = description

    def as_json(self) -> dict[str, Any]:
        return {"code": self.code, "err_code": self.err_code, "description": self.description}


def as_bytes(answer: dict[str, Any]) -> bytes:
    """An answer as the server writes it, without blanks."""
    return json.dumps(answer, separators=(",", ":")).encode()


def stream_not_found() -> ApiFault:
    return ApiFault(404, 10059, "stream not found")


def consumer_not_found() -> ApiFault:
    return ApiFault(404, 10014, "consumer not found")


def no_message() -> ApiFault:
    return ApiFault(404, 10037, "no message found")


def bad_request() -> ApiFault:
    return ApiFault(400, 10003, "bad request")


def sealed() -> ApiFault:
    return ApiFault(400, 10109, "invalid operation on sealed stream")


def no_leader() -> ApiFault:
    return ApiFault(503, 10008, "JetStream system temporarily unavailable")


def stream_config(words: str) -> ApiFault:
    return ApiFault(500, 10052, words)


def consumer_create(words: str) -> ApiFault:
    return ApiFault(500, 10012, words)


def store_failed(words: str) -> ApiFault:
    return ApiFault(503, 10077, words)


def wrong_sequence(sequence: int) -> ApiFault:
    return ApiFault(400, 10071, f"wrong last sequence: {sequence}")

"""The errors of JetStream's API, and the numbers of those that are an answer rather than a failure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.core.errors import Refused

STREAM_NOT_FOUND = 10059
CONSUMER_NOT_FOUND = 10014
MESSAGE_NOT_FOUND = 10037


class ApiError(Refused):
    """The server answered with an error; `err_code` is its own number, `description` its own words."""

    def __init__(self, subject: str, error: Mapping[str, Any]) -> None:
        """Args:
        subject: the subject of the request.
        error: the member of this name in the answer.
        """
        self.code = int(error.get("code", 500))
        self.err_code = int(error.get("err_code", 0))
        self.description = str(error.get("description", "no description"))
        super().__init__(f"{self.description} (JetStream error {self.err_code}, asked {subject})", status=self.code)

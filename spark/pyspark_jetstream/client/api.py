"""The JetStream API as requests and JSON, asked again while servers come and go.

Every call here may be repeated: it only reads, or it makes an object that has a name of its own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from headrace.core.errors import Refused, Unavailable
from headrace.core.nats import nats_wire
from headrace.core.nats.api_error import MESSAGE_NOT_FOUND, STREAM_NOT_FOUND, ApiError
from pyspark_jetstream.client.access import API_PREFIX
from pyspark_jetstream.client.connection import Connection, NotReached

# No leader just now, too few servers up, or an overloaded server; all other 5xx are final answers.
_NOT_ENABLED = frozenset((10039, 10076))  # for the account; on the server
_PASSING = frozenset((10005, 10008, 10009, 10023, 10077))

# The time of one try. JetStream answers in milliseconds or not at all: a leader that has died never answers a request.
# Busy cores get more time with each try.
FIRST_ANSWER_SECONDS = 1.0
LONGEST_ANSWER_SECONDS = 8.0
_PAUSE_SECONDS = 0.1
# How long a subject of the API may have no responders while a query is planned: a starting server needs less.
NOBODY_SECONDS = 0.5


class _Nobody(Unavailable):
    """No responders."""


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """The facts about a stream that planning needs.

    Attributes:
        created: the time of creation as the server writes it; another value means another stream.
        first, last: sequences; `first` is `last` + 1 in an empty stream.
        messages, bytes: how many it holds.
        retention: `limits`, `interest` or `workqueue`.
        allow_direct: whether Direct Get is served.
        subjects: those that it captures.
        is_fed: its messages may have other subjects, too: it has sources, is a mirror, or transforms subjects.
        subject_transform: the transform, if it has one.
    """

    name: str
    created: str
    first: int
    last: int
    messages: int
    bytes: int
    retention: str
    allow_direct: bool
    subjects: tuple[str, ...] = ()
    is_fed: bool = False
    subject_transform: Mapping[str, str] | None = None


class BlockingApi:
    """The API over one connection.

    Attributes:
        connection: others may use it, too.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def subject(self, what: str) -> str:
        """The subject of an API request such as `STREAM.INFO.ORDERS`."""
        return f"{self.connection.access.api_prefix}.{what}"

    def call(self, subject: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send a request to the API, and try for as long as the access's timeout.

        Raises:
            ApiError: the server said no.
            Unavailable: there is no answer.
        """
        began = time.monotonic()
        deadline = began + self.connection.access.timeout
        seconds = FIRST_ANSWER_SECONDS
        while True:
            try:
                return self._once(subject, body, seconds)
            except NotReached:
                # NotReached has used up all the time.
                raise
            except Unavailable as error:
                # The link broke, was silent, or had no responders: another server may know more.
                if self.connection.planning and isinstance(error, _Nobody):
                    deadline = min(deadline, began + NOBODY_SECONDS)
                if time.monotonic() + _PAUSE_SECONDS > deadline:
                    raise
            time.sleep(_PAUSE_SECONDS)
            seconds = min(2 * seconds, LONGEST_ANSWER_SECONDS)

    def _once(self, subject: str, body: Mapping[str, Any] | None, seconds: float) -> dict[str, Any]:
        payload = json.dumps(body).encode() if body is not None else b""
        answer = self.connection.request(self.subject(subject), payload, timeout=seconds)
        if answer.status == "503":
            raise _Nobody(self._silent(subject))
        parsed: dict[str, Any] = json.loads(answer.data)
        self.connection.planning = False
        if "error" in parsed:
            error = ApiError(subject, parsed["error"])
            if error.err_code in _NOT_ENABLED:
                raise Refused(f"{error}: check servers, and the account of {self._user}", status=403)
            if error.err_code in _PASSING:
                raise Unavailable(str(error)) from error
            raise error
        return parsed

    @property
    def _user(self) -> str:
        return self.connection.access.identity_options

    def _silent(self, subject: str) -> str:
        prefix = self.connection.access.api_prefix
        if prefix == API_PREFIX:
            return f"JetStream does not answer {subject}: is it enabled on servers, or has it another domain?"
        asked = f"JetStream does not answer {subject} at {prefix}"
        return f"{asked}: is the option domain or apiPrefix right, and may this user ask?"

    def stream(self, name: str) -> StreamInfo | None:
        """The facts about a stream; None when there is no such stream."""
        try:
            found = self.call(f"STREAM.INFO.{name}")
        except ApiError as error:
            if error.err_code == STREAM_NOT_FOUND:
                return None
            raise
        config, state = found["config"], found["state"]
        last = int(state["last_seq"])
        return StreamInfo(
            name=name,
            created=str(found["created"]),
            # Servers say 0 for a stream that never had a message.
            first=int(state["first_seq"]) if state["messages"] else last + 1,
            last=last,
            messages=int(state["messages"]),
            bytes=int(state["bytes"]),
            retention=str(config.get("retention", "limits")),
            allow_direct=bool(config.get("allow_direct")),
            subjects=tuple(config.get("subjects") or ()),
            is_fed=any(config.get(name) for name in ("mirror", "sources", "subject_transform")),
            subject_transform=config.get("subject_transform"),
        )

    def streams_of(self, subject: str) -> list[str]:
        """The names of the streams that capture a subject."""
        return list(self.call("STREAM.NAMES", {"subject": subject}).get("streams") or ())

    def message_after(self, stream: str, sequence: int, filters: Sequence[str] = ()) -> dict[str, Any] | None:
        """The first message at this sequence or behind it that one of the filters matches; None without one.

        Only the stream's leader answers, and so the answer proves which messages exist.
        """
        found = [
            message
            for subject in filters or (">",)
            if (message := self._message_after(stream, sequence, subject)) is not None
        ]
        return min(found, key=lambda message: int(message["seq"]), default=None)

    def _message_after(self, stream: str, sequence: int, subject: str) -> dict[str, Any] | None:
        try:
            answer = self.call(f"STREAM.MSG.GET.{stream}", {"seq": max(sequence, 1), "next_by_subj": subject})
        except ApiError as error:
            if error.err_code == MESSAGE_NOT_FOUND:
                return None
            raise
        message: dict[str, Any] = answer["message"]
        return message

    def make_consumer(self, stream: str, name: str, config: Mapping[str, Any], seconds: float) -> int:
        """Make a consumer, in one try of so many seconds; gives how many messages it has to deliver.

        Raises:
            ApiError: the server said no.
            Unavailable: no server has answered, and perhaps none ever does for this name: a cluster may give the
                consumer to a server that has died unnoticed. Another name may fall to another server.
        """
        body = {"stream_name": stream, "config": {"name": name, **config}}
        return int(self._once(f"CONSUMER.CREATE.{stream}.{name}", body, seconds).get("num_pending", 0))

    def delete_consumer(self, stream: str, name: str, *, wait: bool = True) -> None:
        """Try once to delete a consumer; a failure is ignored, since its inactive threshold ends it anyway.

        Args:
            wait: wait for the answer, a second at most; useless when its server may be dead.
        """
        if not self.connection.is_open:
            return
        subject = self.subject(f"CONSUMER.DELETE.{stream}.{name}")
        with suppress(Unavailable, Refused):
            if wait:
                self.connection.request(subject, timeout=1.0)
            else:
                self.connection.send(nats_wire.publish(subject, b"", "", None, self.connection.max_payload))

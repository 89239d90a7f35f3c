"""The frames at which somebody may strike: the kinds of what clients send, and of what the server says."""

from __future__ import annotations

from typing import NamedTuple

IN, OUT = "in", "out"
PUB_ACK, API_ANSWER, STATUS, DELIVERY, ACK_ANSWER = "PUB_ACK", "API_ANSWER", "STATUS", "DELIVERY", "ACK_ANSWER"
STORE, ASIDE = "STORE", "ASIDE"
_ASIDE = "._knative_aside."
_ACKS = {b"": "ACK", b"+ACK": "ACK", b"+OK": "ACK", b"+WPI": "WPI"}
_VERBS = (
    ("$JS.API.CONSUMER.MSG.NEXT.", "NEXT"),
    ("$JS.API.DIRECT.GET.", "DIRECT_GET"),
    ("$JS.API.STREAM.PURGE.", "PURGE"),
    ("$JS.API.STREAM.INFO.", "INFO"),
    ("$JS.API.CONSUMER.INFO.", "INFO"),
    ("$JS.API.", "API"),
)


class Seen(NamedTuple):
    """One frame.

    Attributes:
        verb: `ACK`, `ACK_SYNC`, `NAK`, `WPI`, `STORE`, `ASIDE`, `NEXT`, `DIRECT_GET`, `PURGE`, `INFO`, `API` from a
            client; `PUB_ACK`, `ACK_ANSWER`, `API_ANSWER`, `STATUS`, `DELIVERY` from the server.
        direction: `in` or `out`, as the server sees it.
        subject: that it was sent to.
        about: of an answer, the verb of its question; of a delivery or status, `stream/consumer`.
        data, headers: as they are in the frame.
        reply: of a delivery, the ack subject.
    """

    verb: str
    direction: str
    subject: str
    about: str = ""
    data: bytes = b""
    reply: str = ""
    headers: bytes = b""


def verb(subject: str, reply: str, data: bytes) -> str:
    """The kind of what a client sends to JetStream; an event or record, where it is no API call and no ack."""
    if subject.startswith("$JS.ACK."):
        kind = "NAK" if data.startswith(b"-NAK") else _ACKS.get(data, "TERM")
        return "ACK_SYNC" if kind == "ACK" and reply else kind
    if subject.startswith("$JS."):
        return next(kind for prefix, kind in _VERBS if subject.startswith(prefix))
    return ASIDE if _ASIDE in subject else STORE

"""The two doors of `receive`, one for plain requests and one for TLS, and which of them Knative's flag has open.

Knative's own receivers answer 404 at a closed door: each part of a cluster hears of an edited flag at another moment,
and senders try a 404 again. Probes are answered before anything comes here.
"""

from __future__ import annotations

from headrace.core.http import Headers, Request, Response, problem
from headrace.core.security.flags import TransportEncryption

_ALLOW: Headers = ((b"allow", b"POST, OPTIONS"),)


class Door:
    """One door. The short way looks at `open`, for each event.

    Attributes:
        refusal: the answer at the closed door.
    """

    __slots__ = ("open", "refusal")

    def __init__(self, detail: str) -> None:
        self.open = True
        self.refusal: Response = problem(404, "Not served here", detail, headers=_ALLOW)


class Doors:
    """Both of them."""

    def __init__(self) -> None:
        self.plain = Door(
            "transport-encryption is strict: events are taken by https alone; send to the address in the channel's "
            "status, and trust its CACerts"
        )
        self.secure = Door(
            "transport-encryption is disabled: events are taken by http alone; send to the address in the channel's "
            "status"
        )
        self.set(TransportEncryption.DISABLED)

    def set(self, mode: TransportEncryption) -> None:
        """Open and close them as the flag says."""
        self.plain.open = mode is not TransportEncryption.STRICT
        self.secure.open = mode is not TransportEncryption.DISABLED

    def refusal(self, request: Request) -> Response | None:
        """The answer to a request whose door is closed."""
        door = self.secure if request.secure else self.plain
        return None if door.open else door.refusal

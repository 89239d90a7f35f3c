"""The five kinds of failure, named for who can cure them.

    HeadraceError
    ├── InvalidEvent    the sender          HTTP 400, all faults listed
    ├── InvalidSpec     the author of the manifest   a False condition, no requeue
    ├── Refused         the administrator (rights, size, full or missing stream)
    ├── Unavailable     nobody: wait        HTTP 503 and Retry-After
    │   └── NotLetIn    the administrator, or time: NATS does not accept our credentials
    └── Misconfigured   the deployer        exit status 2

Raised by core and io, mapped once per surface (HTTP: `headrace.io.web`; conditions: `headrace.core.channel.status`).
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.plural import counted
from headrace.core.quoting import bounded

# More than a person mends at once; each costs memory and time on its way back to the sender.
MOST_FAULTS = 32


class HeadraceError(Exception):
    """Never raised itself: raise the kind that says who can cure it. Of an endless message the middle is left out."""

    def __init__(self, message: str = "") -> None:
        super().__init__(bounded(message))


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with an event: the attribute (or "data", "content-type") and what to do about it."""

    attribute: str
    problem: str

    def __str__(self) -> str:
        return f"{self.attribute}: {self.problem}"


class InvalidEvent(HeadraceError):
    """What came is not a valid CloudEvent. Carries every fault, not just the first; of very many the first ones."""

    def __init__(self, *faults: Fault) -> None:
        more = len(faults) - MOST_FAULTS
        if more > 0:
            faults = (*faults[:MOST_FAULTS], Fault("event", f"has {counted(more, 'more fault')}: mend these first"))
        super().__init__("; ".join(str(fault) for fault in faults))
        self.faults = faults


class InvalidSpec(HeadraceError):
    """A manifest or an entry asks for something impossible; `field` is its path, as in `spec.delivery.retry`."""

    def __init__(self, message: str, *, field: str) -> None:
        super().__init__(message)
        self.field = field


class Refused(HeadraceError):
    """The server understood and won't do it; `status` is the HTTP answer (401, 403, 404, 413, 500, 503 or 507)."""

    def __init__(self, message: str, *, status: int, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


class Unavailable(HeadraceError):
    """Nothing is wrong with the request; `retry_after` is the wait in seconds that we suggest."""

    def __init__(self, message: str, *, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NotLetIn(Unavailable):
    """NATS refuses our credentials, or we have none; we go on trying all the same, since they may come."""


class Misconfigured(HeadraceError):
    """A setting is missing or wrong; `field` is the environment variable or option."""

    def __init__(self, message: str, *, field: str) -> None:
        super().__init__(message)
        self.field = field

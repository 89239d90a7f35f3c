"""The calls of `reconcile`: how long they took, and how they ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from headrace.core.errors import HeadraceError, Unavailable
from headrace.core.metrics import LONG_BOUNDS, Timings
from headrace.io.process import clock


class HookCalls:
    """All calls of one process."""

    def __init__(self) -> None:
        self._timings: dict[tuple[str, str], Timings] = {}

    @property
    def timings(self) -> Mapping[tuple[str, str], Timings]:
        """The timings by verb and result: ok, unavailable, refused."""
        return self._timings

    @contextmanager
    def timed(self, verb: str) -> Iterator[None]:
        """Count one call, unless it is cancelled."""
        began, result = clock.monotonic(), "ok"
        try:
            yield
        except Unavailable:
            result = "unavailable"
            raise
        except HeadraceError:
            result = "refused"
            raise
        except BaseException:
            result = ""
            raise
        finally:
            if result:
                self._timings.setdefault((verb, result), Timings(LONG_BOUNDS)).took(clock.monotonic() - began)

"""The security document of this process's place, from its mount and by push; the last good one counts.

`now` costs nothing at an event's time: a timer looks at the mounted file each second, and only where one is mounted. A
mount may come late and a push may be lost, so whichever has the higher revision counts. A file that vanishes takes
nothing back: the operator says by a document that nothing is asked for any more.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from headrace.core.installation.function_settings import SecuritySettings
from headrace.core.quoting import quoted
from headrace.core.security import document as form
from headrace.core.security.document import SecurityDocument
from headrace.io.process import log
from headrace.io.process.tls import Stamp, stamp

LOOK_SECONDS = 1.0

_log = log.get("security")


class Security:
    """The document of one process; without a mount it stays empty.

    Attributes:
        on_change: called with each new document, in the loop of `begin`.
    """

    def __init__(self, settings: SecuritySettings, key: bytes = b"") -> None:
        """Args:
        key: the place's; without it no push is believed.
        """
        self.on_change: list[Callable[[SecurityDocument], None]] = []
        self.place = settings.place if settings.directory and key else ""
        """Where pushes come for; empty: none can be believed."""
        self._path = os.path.join(settings.directory, form.KEY) if settings.directory else ""
        self._key = key
        self._now = SecurityDocument()
        self._seen: Stamp = None
        self._problem = ""
        self._timer: asyncio.TimerHandle | None = None
        self.look()

    def now(self) -> SecurityDocument:
        return self._now

    def begin(self) -> None:
        """Look at the mount each second, in the running loop."""
        self.end()
        if self._path:
            self._plan()

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def look(self) -> None:
        """Read the mounted document, if it is another one than at the last look."""
        if not self._path or (seen := stamp(self._path)) == self._seen:
            return
        self._seen = seen
        if seen is None:
            return
        try:
            with open(self._path, "rb") as file:
                text = file.read(form.LONGEST + 1)
        except OSError as error:
            self._complain(f"{self._path} can't be read: {error.strerror}")
        else:
            self._take(text, "mount")

    def pushed(self, message: bytes) -> None:
        """Take a document that came over NATS, whoever has sent it."""
        text = form.opened(message, self.place, self._key)
        if text is None:
            self._complain("a security document was pushed by somebody without this place's key")
        else:
            self._take(text, "push")

    def _take(self, text: bytes, way: str) -> None:
        try:
            if len(text) > form.LONGEST:
                raise ValueError(f"it has more than {form.LONGEST} bytes")
            found = SecurityDocument.from_json(text)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            self._complain(f"the security document of the {way} can't be read ({error}): the operator writes it anew")
            return
        self._problem = ""
        if found.revision <= self._now.revision:
            return
        self._now = found
        _log.info(f"the security document of the {way} counts", revision=found.revision)
        for listener in self.on_change:
            listener(found)

    def _complain(self, problem: str) -> None:
        """Log a trouble once: a stranger who pushes without end must not fill the log."""
        if problem != self._problem:
            self._problem = problem
            _log.warning("the last good security document still counts", error=quoted(problem, 500))

    def _plan(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look_and_plan)

    def _look_and_plan(self) -> None:
        # First: whatever a listener does, the mount is looked at again.
        self._plan()
        self.look()

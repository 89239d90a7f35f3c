"""The safety net under the wake hints: now and then every stream is asked whether it has events that wait.

Asking a thousand streams for their consumers is a thousand requests. Where many are served, one list of all streams
says which of them have changed since their consumers were last looked at; the others are left alone, but for a look
every few minutes. Called by `headrace_operator.scaling.scaler`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from headrace.core.errors import Refused, Unavailable
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.process import log
from headrace.io.process.trouble import Trouble
from headrace_operator.scaling.served_streams import ServedStreams, StreamState

# For fewer streams it is not worth listing perhaps thousands of others.
FEW = 16
LIST_SECONDS = 10.0
# A NATS user that may not list gets no answer at all, but may still ask for each stream by its name.
LIST_AGAIN_SECONDS = 600.0

_log = log.get("scaler")


class Sweep:
    """Looks at all served streams, one after the other."""

    def __init__(self, api: JetStreamApi, streams: ServedStreams, note: Callable[[str], None]) -> None:
        """Args:
        note: called with each stream whose consumers were looked at.
        """
        self._api = api
        self._streams = streams
        self._note = note
        self._trouble, self._unlisted = Trouble(), Trouble()
        self._list_again_at = float("-inf")

    async def once(self) -> bool:
        """Look at every stream that may have new events; False when NATS did not answer for all."""
        complaint, whole = "", True
        try:
            states = await self._states()
            for name in self._streams.names():
                state = None if states is None else states.get(name)
                if state is None or not self._streams.is_still(name, state):
                    complaint = await self._look_at(name, state) or complaint
        except Unavailable as error:
            # The other requests would not be answered either, each after as long a wait.
            complaint, whole = str(error), False
        if complaint:
            write = _log.warning if self._trouble.note(complaint) else _log.debug
            write("consumers can't be looked at, still trying", error=complaint)
        elif self._trouble.over():
            _log.info("consumers can be looked at again")
        return whole

    async def _look_at(self, name: str, state: StreamState | None) -> str:
        """The reason why the look was refused; empty when it was not."""
        try:
            await self._streams.look_at(name, state)
        except Refused as error:
            return f"{name}: {error}"
        self._note(name)
        return ""

    async def _states(self) -> Mapping[str, StreamState] | None:
        """The states of all streams by name; None when they are not known."""
        now = asyncio.get_running_loop().time()
        if len(self._streams.names()) < FEW or now < self._list_again_at:
            return None
        try:
            found = [(str(one["config"]["name"]), _state(one)) async for one in self._api.streams(timeout=LIST_SECONDS)]
        except (Refused, Unavailable) as error:
            self._list_again_at = now + LIST_AGAIN_SECONDS
            write = _log.warning if self._unlisted.note(str(error), 0.0) else _log.debug
            write("streams can't be listed, each is asked by its name for a while", error=str(error))
            return None
        self._unlisted.over()
        return dict(found)


def _state(info: Mapping[str, Any]) -> StreamState:
    state = info["state"]
    return str(info.get("created")), int(state["last_seq"]), int(state.get("consumer_count", 0))

"""Flow control of a connection: uvicorn's, with a second reason to stop reading, and lean while nothing happens."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.flow_control import FlowControl


class Flow(FlowControl):
    """Reading stops while ASGI has not taken the body that has come (`read_paused`), and while bytes are `held`."""

    __slots__ = ("_writable", "held")

    def __init__(self, transport: asyncio.Transport) -> None:
        # Not uvicorn's own: it makes an event, which most connections never need and all would carry along.
        self._transport = transport
        self.read_paused = False
        self.write_paused = False
        self.held = False
        self._writable: asyncio.Event | None = None

    async def drain(self) -> None:
        if self._writable is not None:
            await self._writable.wait()

    def pause_reading(self) -> None:
        if not self.read_paused:
            self.read_paused = True
            if not self.held:
                self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self.read_paused:
            self.read_paused = False
            if not self.held:
                self._transport.resume_reading()

    def hold(self) -> None:
        if not self.held:
            self.held = True
            if not self.read_paused:
                self._transport.pause_reading()

    def let_go(self) -> None:
        if self.held:
            self.held = False
            if not self.read_paused:
                self._transport.resume_reading()

    def pause_writing(self) -> None:
        if not self.write_paused:
            self.write_paused = True
            self._writable = asyncio.Event()

    def resume_writing(self) -> None:
        self.write_paused = False
        if self._writable is not None:
            self._writable.set()
            self._writable = None

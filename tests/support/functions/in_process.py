"""A function served by our own uvicorn settings on a thread, for tests that must look inside the process."""

from __future__ import annotations

import socket
import threading
from types import TracebackType

import uvicorn

from headrace.host import App, application
from headrace.host.serving import config


class InProcess:
    """Use it as a context manager; settings come from the environment, as in a process of its own."""

    def __init__(self, target: str, *, short_way: bool = True) -> None:
        """Args:
        short_way: of a target that takes events the short way: let it.
        """
        self.app: App = application(target)
        if not short_way:
            self.app.intake = None
        self._server = uvicorn.Server(config(self.app))
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name=target)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def __enter__(self) -> InProcess:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join(10)
        self._socket.close()

"""What a user has asked of `headrace up`, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.core.errors import Misconfigured
from headrace.core.quoting import quoted


@dataclass(frozen=True, slots=True)
class Listen:
    """Where `receive` listens; port 0 stands for any free one."""

    host: str
    port: int

    @property
    def local(self) -> str:
        """The host under which this machine reaches `receive`."""
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)

    @property
    def url(self) -> str:
        host = f"[{self.local}]" if ":" in self.local else self.local
        return f"http://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UpOptions:
    """The options of `headrace up`.

    Attributes:
        data: directory of the server's store; None: a temporary one.
        nats: URL of a running server; None: we start our own.
        nats_port: port of our own server; None: any free one.
        metrics: the address for Prometheus; None: no metrics.
        idle_seconds: how long forward and reconcile stay without a request.
    """

    files: tuple[str, ...]
    listen: Listen
    data: Path | None = None
    nats: str | None = None
    nats_port: int | None = None
    idle_seconds: float = 10.0
    log_level: str = "info"
    status_file: Path | None = None
    metrics: Listen | None = None

    def variables(self, variables: Mapping[str, str]) -> dict[str, str]:
        """The variables of the environment that count."""
        if self.nats is not None:
            return {**variables, "NATS_URL": self.nats}
        # NATS_* credentials are for another server: ours has none.
        return {name: text for name, text in variables.items() if not name.startswith("NATS_")}

    def __post_init__(self) -> None:
        for option, given in (("-f", self.files), ("--nats", (self.nats,))):
            if "" in given:
                raise Misconfigured(f"{option} is '': give a name, or leave the option out", field=option)
        if self.nats is not None and self.data is not None:
            raise Misconfigured(
                "--data is the store of our own server, which --nats replaces: give one of them", field="--data"
            )
        if self.nats is not None and self.nats_port is not None:
            raise Misconfigured(
                "--nats-port is of our own server, which --nats replaces: give one of them", field="--nats-port"
            )
        if not 0 < self.idle_seconds <= 86_400:
            raise Misconfigured(
                f"--idle-seconds is {self.idle_seconds:g}: give seconds, more than 0 and at most a day",
                field="--idle-seconds",
            )


def path(text: str | None, option: str) -> Path | None:
    """Read an option that names a file or directory; None: it was not given.

    Raises:
        Misconfigured: the text is empty, which as a path would mean the current directory.
    """
    if text == "":
        raise Misconfigured(f"{option} is '': give a path, or leave the option out", field=option)
    return None if text is None else Path(text)


def listen(text: str, option: str = "--listen", example: str = "127.0.0.1:8080") -> Listen:
    """Read an option that says where to listen.

    Raises:
        Misconfigured: it is not `host:port`.
    """
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise Misconfigured(f"{option} is {quoted(text)}: give host:port, as in {example}", field=option)
    return Listen(host.removeprefix("[").removesuffix("]"), int(port))

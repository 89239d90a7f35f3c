"""The effects and the surroundings of `reconcile`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, ParamSpec, Protocol, TypeVar

from headrace.core.caller_token import DeliveryKeys, Digests
from headrace.core.channel.hook import Installation
from headrace.core.installation.channel_defaults import Defaults
from headrace.core.installation.secret_names import SecretNames
from headrace.core.installation.tenants import Tenants
from headrace.core.nats.action import Action, Outcome
from headrace.core.raw_config import Config

P = ParamSpec("P")
T = TypeVar("T")


class Calculate(Protocol):
    """Calls a pure function that may take long, by `headrace.io.process.calculation`.

    `things` are the objects that it is about, or kilobytes of text, roughly.
    """

    def __call__(self, things: int, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]: ...


async def on_the_spot(_: int, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """A `Calculate` that nobody else waits for."""
    return function(*args, **kwargs)


class Administration(Protocol):
    """The effects of `reconcile` in NATS, by `headrace.io.jetstream.admin.Admin`.

    Every method raises Unavailable when NATS is away.
    """

    async def stream(self, name: str) -> Config | None:
        """The configuration of a stream; None when there is none."""

    async def count(self, stream: str, subjects: str) -> int:
        """How many subjects that match a filter hold messages."""

    async def consumers(self, stream: str) -> list[Config]:
        """The configurations of all consumers of a stream; none when there is no stream."""

    async def info(self, stream: str, subjects: str = "") -> Mapping[str, Any] | None:
        """STREAM.INFO, with the subjects that match a filter in its state; None when there is no stream."""

    async def consumer_infos(self, stream: str) -> Sequence[Mapping[str, Any]]:
        """CONSUMER.LIST, whole."""

    async def number(self, stream: str, subject: str) -> int:
        """The number that a subject holds; zero without one."""

    async def text(self, stream: str, subject: str) -> str | None:
        """The newest message of a subject, as text; None without one."""

    async def first_since(self, stream: str, time: str) -> int:
        """The first sequence that was stored at a time, in ISO 8601, or later; raises Refused if nobody says."""

    async def add(self, stream: str, subject: str, number: int) -> None:
        """Add to the number that a subject holds; raises Refused when there is no room."""

    async def no_room(self, subject: str) -> str:
        """Why the server has no room for any message, asked at a subject of an aside stream; empty if it has room."""

    async def max_payload(self) -> int:
        """The bytes that the server takes in one message."""

    async def carry_out(self, action: Action) -> Outcome:
        """Carry out one action; an object that is gone already counts as deleted."""


class Ours(Administration, Protocol):
    """The installation's own account."""

    def streams(self, *, to_change: bool) -> AbstractAsyncContextManager[Sequence[Config]]:
        """The configurations of all streams; nobody else here reads them meanwhile, to make another one.

        Args:
            to_change: the caller is about to make or change one.
        """


class Elsewhere(Administration, Protocol):
    """A NATS account behind the `reconcile` of a channel's own functions, which alone has the credentials.

    Every method raises Unavailable also when that `reconcile` is away.
    """

    async def named(self) -> SecretNames:
        """The Secrets that the ConfigMap over there names; works without NATS."""


@dataclass(frozen=True, slots=True)
class Around:
    """The surroundings of a call of the hook, beside the installation's own NATS.

    Attributes:
        defaults: for channels whose authors have left settings out; None where no defaults are kept.
        tenants: what channels may have beyond the usual, by namespace.
        named: the Secrets that our own ConfigMap names, and its trouble.
        digests: with them functions check their callers' tokens; needed where there are functions.
        delivery_keys: with them functions know one another's deliveries; needed likewise.
        elsewhere: returns the NATS account behind the URL of another `reconcile`; None: all channels are in our own.
        installation: our description of ourselves; None: we give none.
        calculate: how what may take long is calculated.
    """

    defaults: Defaults | None = None
    tenants: Tenants = Tenants()
    named: SecretNames = SecretNames()
    digests: Digests | None = None
    delivery_keys: DeliveryKeys | None = None
    elsewhere: Callable[[str], Elsewhere] | None = None
    installation: Installation | None = None
    calculate: Calculate = on_the_spot

"""Where channels live: what a pass sees beside a channel, and what it writes. The port between passes and places.

`cluster_world` has the API server behind it, `headrace_cli.laptop.file_world` has manifest files. `one_channel` and
`channel_work` use the port.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from headrace.core.channel.hook import HookRequest, HookResponse, Reference
from headrace_operator.channels.child_records import ChildrenOutcome
from headrace_operator.kube.api import Body
from headrace_operator.kube.kinds import Key
from headrace_operator.kube.watch import Cache


class World(Protocol):
    """One place with channels. A method that writes a channel also puts it into `channels`, and gives it as written."""

    @property
    def channels(self) -> Cache:
        """The channels as they are."""

    async def prepare(self, channel: Body) -> Body:
        """Begin a pass: watch the objects that the hook wants to see, and hold the channel if it stays."""

    def request(self, channel: Body, *, finalizing: bool, ending: bool) -> tuple[HookRequest, bytes]:
        """The request to the hook, and its `related` as JSON; `ending`: the channel's namespace is being deleted."""

    async def absent(self, references: Sequence[Reference], /) -> frozenset[str]:
        """The uids of the objects that are proved not to exist."""

    async def make_so(
        self, channel: Body, wanted: Sequence[Mapping[str, Any]], check: Callable[[], None] = lambda: None, /
    ) -> ChildrenOutcome:
        """Make the channel's children as they are wanted; `check` raises once the answer does not count any more."""

    async def prune(self, channel: Body, kept: list[Any]) -> Body:
        """Replace `spec.subscribers`; Conflict when the channel has changed meanwhile."""

    async def write_status(self, channel: Body, status: Mapping[str, Any]) -> Body | None:
        """Replace the status, and tell people of the changes; None: this channel is gone."""

    async def let_go(self, channel: Body) -> None:
        """Let a channel vanish that is being deleted and has nothing left. Conflict when it has changed meanwhile."""

    def tell(self, channel: Mapping[str, Any], reason: str, message: str, *, warning: bool = False) -> None:
        """Tell people of an event in a channel's life."""

    def forget(self, place: Key) -> None:
        """A channel has vanished."""


Call = Callable[[HookRequest, bytes], Awaitable[HookResponse]]
"""Calls `reconcile`, wherever it runs, with a request and its `related` as JSON; raises as `HookClient.call`."""

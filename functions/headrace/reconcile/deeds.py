"""Carries out actions on streams and consumers, and mends the server's answer where it can.

When the server refuses a default of ours, we ask once more for a lower one; a consumer that came out with harmful
settings is taken back (`headrace.core.channel.granted`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from headrace.core.channel import granted
from headrace.core.channel.granted import Lowered
from headrace.core.nats.action import Action, Done, Outcome, Rejected, UpdateConsumer, UpdateStream
from headrace.core.raw_config import Config, differs
from headrace.reconcile.ports import Administration


class Deeds:
    """The actions for one channel; `lowered` are our defaults that gave way to the server's limits."""

    def __init__(self, api: Administration) -> None:
        self.api = api
        self.lowered: list[Lowered] = []

    async def carry_out(
        self, action: Action, defaults: Collection[str] = (), observed: Config | None = None
    ) -> Outcome:
        """Carry out one action.

        Args:
            defaults: keys of its configuration that nobody has asked for.
            observed: the server's configuration before, if the action changes it.
        """
        outcome = await self.api.carry_out(action)
        lower = granted.lowered(action, outcome, defaults) if isinstance(outcome, Rejected) else None
        if lower is not None:
            action, why = lower
            self.lowered.append(why)
            outcome = await self._lower(action, observed)
        harm = granted.harm(action, outcome)
        if not harm:
            return outcome
        if (undo := granted.undo(action)) is not None:
            await self.api.carry_out(undo)
        return Rejected(harm)

    async def all(
        self, actions: Iterable[Action], defaults: Collection[str] = (), observed: Config | None = None
    ) -> Rejected | None:
        """Carry out actions in order, up to the first that the server refuses."""
        for action in actions:
            outcome = await self.carry_out(action, defaults, observed)
            if isinstance(outcome, Rejected):
                return outcome
        return None

    async def _lower(self, action: Action, observed: Config | None) -> Outcome:
        """Carry out a lowered action, unless the server's configuration is the same already."""
        if isinstance(action, UpdateStream | UpdateConsumer) and observed is not None:
            same = observed.get("name") == action.config.get("name") and not differs(observed, action.config)
            if same:
                return Done(observed)
        return await self.api.carry_out(action)

"""One pass over one channel: it observes, asks the hook, and does what the hook answers. The order of things is here.

For a channel that stays, the order is: finalizer, hook, what the hook wants verified, entries to prune, children,
status. For a channel that is going, it is: the hook until it says that nothing is left, then the children, then the
finalizer. This module does not know what a channel needs, nor where it lives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.core.channel.hook import HookRequest, HookResponse, Installation
from headrace.core.errors import HeadraceError, Refused
from headrace.io.process import log
from headrace.io.process.trouble import LASTING_SECONDS, Trouble
from headrace_operator.channels import channel_object
from headrace_operator.channels.child_records import ChildProblem, ChildrenOutcome
from headrace_operator.channels.succession import Succession
from headrace_operator.channels.world import Call, World
from headrace_operator.kube.api import Body, Conflict, passes
from headrace_operator.kube.kinds import Key, key

# Objects that may be gone come in crowds; the rest is looked up in the next pass.
MOST_VERIFIED = 64
FINALIZE_SECONDS = 5.0

_log = log.get("operator")


@dataclass(slots=True)
class Known:
    """The memory of one channel between two passes.

    Attributes:
        wanted: the status of the last answer.
        written: that status as the API server kept it, perhaps without members that the CRD does not know.
        trouble: the failures of the last passes.
        ending: its namespace is being deleted.
    """

    wanted: Mapping[str, Any] = field(default_factory=dict)
    written: Mapping[str, Any] | None = None
    trouble: Trouble = field(default_factory=Trouble)
    ending: bool = False


class OneChannel:
    """Makes passes over channels, also over many at a time, but never two over the same.

    Attributes:
        on_answer: called with a channel and the hook's answer, once the children are as the answer wants them.
        succession: decides which of the `reconcile` processes counts.
    """

    def __init__(self, world: World, call: Call) -> None:
        self.on_answer: list[Callable[[Key, HookResponse], None]] = []
        self.succession = Succession()
        self._world = world
        self._call = call
        # A thousand channels may have the same trouble; each has an Event of its own.
        self._sparing = log.Sparing()
        self._known: dict[Key, Known] = {}

    def status_is_ours(self, channel: Mapping[str, Any]) -> bool:
        """Is the channel's status the one that we wrote last? True while nothing was written yet."""
        known = self._known.get(key(channel))
        return known is None or known.written is None or known.written == (channel.get("status") or {})

    async def work(self, place: Key) -> float | None:
        """Make one pass; gives the seconds until the next, None: the next is due when something changes.

        Raises:
            HeadraceError: the pass did not come to its end, and is to be tried again.
        """
        channel = self._world.channels.get(place)
        if channel is None:
            self._known.pop(place, None)
            self._world.forget(place)
            return None
        if not channel_object.is_going(channel):
            return await self._keep(channel)
        if channel_object.is_held(channel):
            return await self._take_down(channel)
        return None

    async def _keep(self, channel: Body) -> float | None:
        channel = await self._world.prepare(channel)
        answer = await self._asked(channel, finalizing=False)
        channel, pruned = await self._prune(channel, answer)
        outcome = await self._make_children(channel, answer)
        channel = await self._write_status(channel, answer)
        self._tell_events(channel, answer)
        self._note_end(channel, outcome.problems)
        waits = [answer.resync_after_seconds or None, outcome.again_after, 0.0 if pruned else None]
        return min((wait for wait in waits if wait is not None), default=None)

    async def _take_down(self, channel: Body) -> float | None:
        channel = await self._world.prepare(channel)
        answer = await self._asked(channel, finalizing=True)
        self._tell_events(channel, answer)
        if not answer.finalized:
            outcome = await self._make_children(channel, answer)
            channel = await self._write_status(channel, answer)
            self._note_end(channel, outcome.problems)
            known = self._known.setdefault(key(channel), Known())
            news, known.ending = outcome.ending and not known.ending, known.ending or outcome.ending
            return 0.0 if news else answer.resync_after_seconds or FINALIZE_SECONDS
        for each in answer.events:
            # No Event can be written in a namespace that is being deleted.
            words = "channel goes with something left undone"
            _log.warning(words, channel="/".join(key(channel)), reason=each.reason, message=each.message)
        outcome = await self._world.make_so(channel, ())
        if outcome.problems:
            self._note_end(channel, outcome.problems)
        await self._world.let_go(channel)
        _log.info("channel is taken down", channel="/".join(key(channel)))
        return None

    async def _asked(self, channel: Body, *, finalizing: bool) -> HookResponse:
        """The hook's answer; when an object that it wanted verified does not exist, its answer to that."""
        ending = self._known.setdefault(key(channel), Known()).ending
        request, related = self._world.request(channel, finalizing=finalizing, ending=ending)
        answer = await self._called(request, related)
        absent = await self._world.absent(answer.verify[:MOST_VERIFIED])
        return await self._called(replace(request, absent=absent), related) if absent else answer

    async def _called(self, request: HookRequest, related: bytes) -> HookResponse:
        answer = await self._call(request, related)
        self.succession.hear(answer.installation or Installation())
        return answer

    async def _make_children(self, channel: Body, answer: HookResponse) -> ChildrenOutcome:
        def check() -> None:
            self.succession.check(answer.installation or Installation())

        outcome = await self._world.make_so(channel, answer.children, check)
        for listener in self.on_answer:
            listener(key(channel), answer)
        return outcome

    async def _prune(self, channel: Body, answer: HookResponse) -> tuple[Body, bool]:
        kept = channel_object.without(channel, answer.prune)
        if kept is None:
            return channel, False
        try:
            pruned = await self._world.prune(channel, kept)
        except Conflict:
            # Somebody has changed the channel since the hook saw it, so the hook is asked again.
            return channel, True
        gone = ", ".join(answer.prune)
        message = f"taken out of spec.subscribers, since their Subscriptions do not exist any more: {gone}"
        self._world.tell(pruned, "SubscribersPruned", message)
        return pruned, True

    async def _write_status(self, channel: Body, answer: HookResponse) -> Body:
        known = self._known.setdefault(key(channel), Known())
        before = channel.get("status") or {}
        if not answer.status or (known.written == before and known.wanted == answer.status):
            return channel
        written = await self._world.write_status(channel, answer.status)
        if written is None:
            return channel
        known.wanted, known.written = answer.status, written.get("status") or {}
        return written

    def _tell_events(self, channel: Body, answer: HookResponse) -> None:
        for each in answer.events:
            self._world.tell(channel, each.reason, each.message, warning=each.type == "Warning")

    def _note_end(self, channel: Body, problems: tuple[ChildProblem, ...]) -> None:
        """The pass is at its end; with a problem it is a failed one."""
        if problems:
            kind = Conflict if all(one.passes for one in problems) else Refused
            raise kind("; ".join(one.words for one in problems), status=409)
        self._known.setdefault(key(channel), Known()).trouble.over()

    def note_problem(self, place: Key, error: HeadraceError) -> None:
        """Report why a pass failed, once in a row of failures; a failure that may pass by itself only when it lasts."""
        known, words = self._known.setdefault(place, Known()), "pass failed, trying again"
        if not known.trouble.note(str(error), LASTING_SECONDS if passes(error) else 0.0):
            _log.debug(words, channel="/".join(place), error=str(error))
            return
        left_out = self._sparing.admit(words)
        if left_out is not None:
            _log.warning(words, channel="/".join(place), error=str(error), **log.more(left_out))
        channel = self._world.channels.get(place)
        if channel is not None:
            self._world.tell(channel, "ReconcileFailed", str(error), warning=True)

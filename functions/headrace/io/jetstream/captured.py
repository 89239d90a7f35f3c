"""Does a stream capture a subject? The server is asked sparingly, since each question costs it a look at every stream.

A publish for a channel that does not exist has no responders, and so has one while JetStream is not ready: only the API
can tell one from the other. Strangers choose the subjects, and with thousands of streams a question takes milliseconds
of the server. So an answer counts for a second, at most one question is under way, and between two of them the server
has at least nineteen times as long as the last one took (ADR 054).

Only `headrace.io.jetstream.data_path` uses it.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from headrace.core.errors import HeadraceError, Refused
from headrace.io.jetstream.api import JetStreamApi

# So long an answer counts, and so long JetStream is left in peace when it did not answer.
REMEMBERED_SECONDS = 1.0
MOST_REMEMBERED = 4096
# The pause after a question, in units of its length.
PAUSE_FACTOR = 19
# Questions that wait for their turn, and how long one may.
MOST_WAITING = 16
TURN_SECONDS = 1.0


class _Answer(NamedTuple):
    """What the server said, and until when that counts on the loop's clock."""

    captured: bool
    until: float


class Captured:
    """The answers so far, the question that is under way, and those that wait for their turn."""

    def __init__(self, api: JetStreamApi) -> None:
        self._api = api
        # The oldest first.
        self._answers: dict[str, _Answer] = {}
        self._silent: dict[str, None] = {}
        self._answering: set[str] = set()
        self._asking: dict[str, asyncio.Future[bool]] = {}
        self._turn = asyncio.Lock()
        self._next_at = 0.0
        self._away_until = 0.0
        self._up_until = 0.0

    def answers(self, subject: str) -> None:
        """A stream has answered an event for that subject. If it falls silent, it has no leader: nobody is refused."""
        if len(self._answering) >= MOST_REMEMBERED and subject not in self._answering:
            self._answering.clear()
        self._answering.add(subject)

    def is_silent(self, subject: str) -> bool:
        """Was an event for that subject taken by a subscriber and by no stream? Then ask before the next is sent."""
        return subject in self._silent

    def refusal(self, subject: str) -> Refused | None:
        """The refusal of an event that had no responders, if no stream captured its subject a moment ago."""
        answer = self._known(subject)
        return None if answer is None or answer.captured else _no_channel(subject)

    async def refuse_if_not(self, subject: str, timeout: float, *, silent: bool) -> None:
        """Return if a stream captures the subject, or has done so; or if JetStream does not say, as after its start.

        Args:
            silent: an event for the subject was not answered at all.

        Raises:
            Refused: 404, no stream captures it.
            And 503: there are too many such questions.
        """
        now = asyncio.get_running_loop().time
        if (answer := self._known(subject)) is None and now() >= self._away_until:
            had_turn = await self._ask_in_turn(subject, timeout)
            if not had_turn and now() < self._up_until and subject not in self._answering:
                raise _too_many(subject)
            answer = self._known(subject)
        if answer is not None and not answer.captured:
            if silent:
                _put(self._silent, subject, None)
            raise _no_channel(subject)

    def _known(self, subject: str) -> _Answer | None:
        answer = self._answers.get(subject)
        return answer if answer is not None and answer.until > asyncio.get_running_loop().time() else None

    async def _ask_in_turn(self, subject: str, timeout: float) -> bool:
        """Wait for the question's turn and its answer; False: its turn did not come."""
        asking = self._asking.get(subject)
        if asking is None:
            if len(self._asking) >= MOST_WAITING:
                return False
            asking = self._asking[subject] = asyncio.ensure_future(self._ask(subject))
            asking.add_done_callback(lambda _: self._asking.pop(subject))
        await asyncio.wait({asking}, timeout=max(0.05, timeout))
        return not asking.done() or asking.result()

    async def _ask(self, subject: str) -> bool:
        """Ask when it is its turn; False: that did not come in time."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(TURN_SECONDS):
                await self._turn.acquire()
        except TimeoutError:
            return False
        try:
            await asyncio.sleep(max(0.0, self._next_at - loop.time()))
            if loop.time() >= self._away_until:
                await self._question(subject)
        finally:
            self._turn.release()
        return True

    async def _question(self, subject: str) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            found = await self._api.call("STREAM.NAMES", {"subject": subject}, timeout=REMEMBERED_SECONDS)
        except HeadraceError:
            # Nobody is refused for that: it is like this just after the server's start.
            self._away_until = loop.time() + REMEMBERED_SECONDS
            self._answers.pop(subject, None)
            self._up_until = 0.0
        else:
            captured = bool(found.get("streams"))
            self._up_until = loop.time() + 2 * REMEMBERED_SECONDS
            _put(self._answers, subject, _Answer(captured, loop.time() + REMEMBERED_SECONDS))
            if captured:
                self._silent.pop(subject, None)
        self._next_at = loop.time() + min(REMEMBERED_SECONDS, PAUSE_FACTOR * (loop.time() - began))


def _put(remembered: dict[str, Any], subject: str, value: object) -> None:
    """Remember it as the newest, and forget the oldest beyond the bound."""
    remembered.pop(subject, None)
    remembered[subject] = value
    if len(remembered) > MOST_REMEMBERED:
        del remembered[next(iter(remembered))]


def _too_many(subject: str) -> Refused:
    words = f"whether there is a channel for {subject} is not known: NATS is asked for too many that do not exist"
    return Refused(words, status=503, retry_after=1.0)


def _no_channel(subject: str) -> Refused:
    namespace, _, name = subject.removesuffix("._knative").partition(".")
    words = (
        f"there is no channel {name!r} in namespace {namespace!r}: no stream captures {subject}; is it made and Ready?"
    )
    return Refused(words, status=404)

"""The short way of an event: from the socket's bytes to the publish, and from the PubAck's callback to the answer.

Nearly every event takes it: a whole post that can be read in one way and leaves nothing to decide. It may decline at
every step, and nothing has happened then; `story.receive` is the way of all other events (ADR 016).

Our own server calls it for bytes from the start of a message (`headrace.server.front`).
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.core.errors import HeadraceError
from headrace.core.event.nats_codec import Encoded
from headrace.core.event.whole_post import WholePost, WholePosts
from headrace.core.fast import new_tuple
from headrace.core.http import Response
from headrace.core.waiting import BESIDE_BYTES, Waiting
from headrace.receive.doors import Door
from headrace.receive.story import Outcome, ReceiveEffects, conclusion


class Intake:
    """Takes whole posts that come by one door."""

    def __init__(self, effects: ReceiveEffects, waiting: Waiting, door: Door) -> None:
        self._effects = effects
        self._door = door
        self._waiting = waiting
        self._posts = WholePosts(effects.claims, effects.router.declined)
        self._subject_of = effects.router.subject_of

    def take(self, data: bytes, answer: Callable[[Response], None]) -> int | None:
        """Publish the event in these bytes, if they are one whole post of the plain kind.

        Args:
            answer: called once and later, if the post was taken.

        Returns:
            How many bytes the post lacks: 0, it was taken. None: nothing has happened.
        """
        if not self._door.open:
            return None
        post = self._posts.match(data)
        effects, waiting = self._effects, self._waiting
        if not isinstance(post, WholePost):
            # Nobody's body is awaited before it is known whose it is.
            may_come = post is None or effects.gate.tokens is None or self._is_known(*self._posts.sender(data))
            return post if may_come else None
        subject = self._subject_of(post.host, post.url)
        if subject is None or (effects.traced is not None and effects.traced(post.block)):
            return None
        tokens, senders = effects.gate.tokens, effects.gate.senders
        if tokens is not None:
            sender = tokens.known(subject, post.authorization)
            # Refusals, and filters, are for the long way.
            if sender is None or (senders is not None and not senders.verdict(subject, sender).any_event):
                return None
        message: Encoded = new_tuple(Encoded, (subject, post.block, post.data))
        began = effects.monotonic()
        held = len(post.block) + len(post.data) + BESIDE_BYTES
        if not waiting.add(held):
            return None

        def published(outcome: Outcome) -> None:
            waiting.size -= held
            if isinstance(outcome, HeadraceError):
                effects.refuse(message.subject, outcome, answer)
                return
            for response in conclusion(message, outcome, post.claim, effects):
                answer(response)
            effects.stored(message.subject, outcome, effects.monotonic() - began)

        taken = False
        try:
            taken = effects.publish_now(message, effects.publish_seconds, published)
        finally:
            # Also where a fault of ours ends the call: bytes that nobody answers for would stay counted for good.
            if not taken:
                waiting.drop(held)
        return 0 if taken else None

    def _is_known(self, host: bytes, url: bytes, authorization: bytes) -> bool:
        """Is it the short way's to say that this sender's token is good for that channel?"""
        subject, tokens = self._subject_of(host, url), self._effects.gate.tokens
        return subject is not None and tokens is not None and tokens.known(subject, authorization) is not None

    def hold(self, size: int, held: int) -> bool:
        """Count more bytes of a message that is on its way in; False: there is no room for them."""
        return self._waiting.add(size, held)

    def let_go(self, size: int) -> None:
        self._waiting.drop(size)

    def when_full(self, ask: Callable[[], None]) -> None:
        """Have it called whenever there is no room for more bytes."""
        self._waiting.full = ask

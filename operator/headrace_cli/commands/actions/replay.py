"""What `replay` does: it finds out what is to be brought where, brings it, and says how to go on when it is stopped."""

from __future__ import annotations

import secrets
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

from headrace.core.plural import counted
from headrace_cli.access.session import Session
from headrace_cli.access.stream_reader import MessageReader
from headrace_cli.catalog.channels import CatalogChannel, channel
from headrace_cli.catalog.names import parse_ref
from headrace_cli.commands.console import tell
from headrace_cli.commands.params import channel_of
from headrace_cli.commands.rules import Given
from headrace_cli.events.filters import event_filter
from headrace_cli.events.send import SendRate
from headrace_cli.replays import position, run
from headrace_cli.replays.position import ReplayPosition, Span
from headrace_cli.replays.run import ReplayTarget
from headrace_cli.view.progress import Progress
from headrace_cli.view.units import asked_moment


async def replay(session: Session, given: Given) -> int:
    source = await channel(session.api, channel_of(given))
    reader = MessageReader(session.api, source.stream)
    wanted = event_filter(given["types"], given["sources"], given["attributes"])
    checkpoint = Path(given["checkpoint"]) if given["checkpoint"] else None
    async with AsyncExitStack() as stack:
        bring, target = await _target(session, source, given, stack)
        at = await _position(reader, given, source.stream, target, checkpoint)
        if given["dry_run"]:
            bring, checkpoint = _nothing, None
        elif checkpoint is not None:
            # A file that can't be written is an error before any event is brought.
            position.save(checkpoint, at)
        pace = SendRate(None if given["dry_run"] else given["rate"])
        with Progress("looked at", at.last - at.next + 1) as progress:
            try:
                await run.replay(reader, wanted, bring, at, pace=pace, checkpoint=checkpoint, step=progress.step)
            finally:
                _report(at, source, given)
    return 0


async def _nothing(*_: object) -> None:
    """Bring an event nowhere, for a dry run."""


async def _target(session: Session, source: CatalogChannel, given: Given, stack: AsyncExitStack) -> ReplayTarget:
    if given["to_subscription"]:
        return await run.to_subscription(session, source, given["to_subscription"])
    if given["to_channel"]:
        wanted = parse_ref(given["to_channel"], given["namespace"])
        return await run.to_channel(session, source, wanted, may_be_same=given["to_same_channel"])
    return await stack.enter_async_context(run.to_uri(given["to_uri"]))


async def _position(
    reader: MessageReader, given: Given, stream: str, target: str, checkpoint: Path | None
) -> ReplayPosition:
    if checkpoint is not None and (known := position.load(checkpoint, stream=stream, target=target)) is not None:
        tell(f"going on at sequence {known.next} of {known.last}, run {known.run}")
        return known
    now = datetime.now(UTC)
    since, until = (
        None if given[name] is None else asked_moment(given[name], now, f"--{name}") for name in ("since", "until")
    )
    span = Span(given["sequence"], since, given["until_sequence"], until)
    return await position.begin(reader, span, run=given["run"] or secrets.token_hex(4), stream=stream, target=target)


def _report(at: ReplayPosition, source: CatalogChannel, given: Given) -> None:
    words = "would be replayed" if given["dry_run"] else "replayed"
    tell(f"{counted(at.replayed, 'event')} of {source.ref} {words} to {at.target}")
    if at.over or given["dry_run"]:
        return
    go_on = f"--sequence {at.next} --until-sequence {at.last}"
    if given["checkpoint"]:
        go_on = f"--checkpoint {given['checkpoint']}"
    elif not given["to_uri"]:
        go_on = f"--run {at.run} {go_on}"
    tell(f"stopped before sequence {at.next} of {at.last}; to go on, the same command with {go_on}")

"""`replay`: its words, and what it is told to do."""

from __future__ import annotations

import secrets
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.core.errors import Misconfigured, Refused
from headrace.core.plural import counted
from headrace_cli.catalog.names import ref
from headrace_cli.commands import params
from headrace_cli.commands.params import Given
from headrace_cli.commands.running import on_nats, tell
from headrace_cli.commands.unused import Unless, one_of

if TYPE_CHECKING:
    from headrace_cli.access.session import Session
    from headrace_cli.access.stream_reader import Reader
    from headrace_cli.catalog.channels import Channel
    from headrace_cli.replays.run import Bring, Position

HELP = """\
Bring events that lie in a channel's stream again: to one of its Subscriptions and to no other, to another channel, or
to an address. Which: by sequence or time, and by filter. The events are what they were; nobody's position moves.

To a Subscription the events go through the stream, marked for it, and are delivered as always, with retries and dead
letter sink. To begin anew with everything there is `subscription reset`, which stores nothing.

It can be stopped at any event; it then says how to go on. With --checkpoint FILE the same command goes on by itself,
also after it was killed.
"""

EPILOG = params.examples("""\
  kn jetstream replay orders --since 2h --to-subscription billing --rate 100
  kn jetstream replay orders --sequence 4711 --until-sequence 4800 --to-channel repaired
  kn jetstream replay shop/orders --since 1d --type shop.order --to-uri http://127.0.0.1:9000/ --checkpoint r.json
  kn jetstream replay orders --since 2026-01-31T09:00:00Z --until 2026-01-31T10:00:00Z --to-subscription billing --dry-run
""")  # noqa: E501  # an example is one line


def _replay(**given: Any) -> int:
    targets = [name for name in ("to_subscription", "to_channel", "to_uri") if given[name]]
    if len(targets) != 1:
        wanted = "give one of --to-subscription, --to-channel and --to-uri"
        raise Misconfigured(f"{'nobody is' if not targets else 'several are'} to get them: {wanted}", field="--to-uri")
    if given["sequence"] is None and given["since"] is None and not given["from_start"]:
        raise Misconfigured("say from where: --sequence, --since, or --from-start", field="--since")
    return on_nats(given, lambda session: _run(session, given))


async def _run(session: Session, given: Given) -> int:
    from headrace_cli.access.stream_reader import Reader
    from headrace_cli.catalog.channels import channel
    from headrace_cli.events.filters import event_filter
    from headrace_cli.events.send import Pace
    from headrace_cli.replays import run
    from headrace_cli.view.progress import Progress

    source = await channel(session.api, ref(given["channel"], given["namespace"]))
    reader = Reader(session.api, source.stream)
    filters = event_filter(given["types"], given["sources"], given["attributes"])
    checkpoint = Path(given["checkpoint"]) if given["checkpoint"] else None
    async with AsyncExitStack() as stack:
        bring, target = await _target(session, source, given, stack)
        position = await _position(reader, given, source.stream, target, checkpoint)
        if given["dry_run"]:
            bring = _nothing
        elif checkpoint is not None:
            # What can't be written is told before anything is brought.
            run.save(checkpoint, position)
        with Progress("looked at", position.last - position.next + 1) as progress:
            try:
                await run.replay(
                    reader,
                    filters,
                    bring,
                    position,
                    pace=Pace(None if given["dry_run"] else given["rate"]),
                    checkpoint=None if given["dry_run"] else checkpoint,
                    progress=progress,
                )
            finally:
                _report(position, source, given)
    return 0


async def _nothing(*_: object) -> None:
    """What a dry run does with an event."""


def _report(position: Position, source: Channel, given: Given) -> None:
    words = "would be replayed" if given["dry_run"] else "replayed"
    tell(f"{counted(position.replayed, 'event')} of {source.ref} {words} to {position.target}")
    if position.over or given["dry_run"]:
        return
    go_on = f"--run {position.run} --sequence {position.next} --until-sequence {position.last}"
    if given["to_uri"]:
        go_on = f"--sequence {position.next} --until-sequence {position.last}"
    if given["checkpoint"]:
        go_on = f"--checkpoint {given['checkpoint']}"
    tell(f"stopped before sequence {position.next} of {position.last}; to go on, the same command with {go_on}")


async def _target(session: Session, source: Channel, given: Given, stack: AsyncExitStack) -> tuple[Bring, str]:
    from headrace_cli.catalog.channels import channel
    from headrace_cli.catalog.subscriptions import subscriptions, the_one
    from headrace_cli.replays import run

    namespace = given["namespace"]
    if given["to_subscription"]:
        one = the_one(await subscriptions(session.admin, source), given["to_subscription"], source.namespace)
        if one.state not in ("ready", "paused"):
            raise Refused(f"Subscription {one.ref} is {one.state}: nothing is delivered to it now", status=409)
        # A stream with a transform stores under other subjects than those that it listens on.
        moved = one.channel.subject if one.channel.transform else ""
        return run.to_consumer(session, one.consumer, moved), f"Subscription {one.ref}"
    if given["to_channel"]:
        to = (await channel(session.api, ref(given["to_channel"], namespace))).ref
        if to == source.ref and not given["to_same_channel"]:
            problem = f"{to} is where they are: all its Subscriptions would get them again"
            raise Misconfigured(f"{problem}; add --to-same-channel if that is meant", field="--to-channel")
        return run.to_channel(session, to.namespace, to.name), f"channel {to}"
    from headrace.io.http import HttpClient

    client = HttpClient()
    stack.push_async_callback(client.close)
    return run.to_uri(client, given["to_uri"]), given["to_uri"]


async def _position(reader: Reader, given: Given, stream: str, target: str, checkpoint: Path | None) -> Position:
    from headrace_cli.replays.run import Position, load
    from headrace_cli.view.units import asked_moment

    known = None if checkpoint is None else load(checkpoint)
    if known is not None:
        if (known.stream, known.target) != (stream, target):
            problem = f"is of a replay of {known.stream} to {known.target}, not of {stream} to {target}"
            raise Misconfigured(f"--checkpoint {checkpoint} {problem}", field="--checkpoint")
        tell(f"going on at sequence {known.next} of {known.last}, run {known.run}")
        return known
    extent, now = await reader.extent(), datetime.now(UTC)
    first, last = given["sequence"] or extent.first, given["until_sequence"] or extent.last
    if given["since"] is not None:
        first = await reader.sequence_at(asked_moment(given["since"], now, "--since"))
    if given["until"] is not None:
        last = await reader.sequence_at(asked_moment(given["until"], now, "--until")) - 1
    run = given["run"] or secrets.token_hex(4)
    return Position(run, stream, target, max(1, first, extent.first), min(last, extent.last))


COMMAND = params.verb(
    "replay",
    _replay,
    params.Words(HELP, EPILOG, "Deliver stored events again, to whom you choose."),
    params.channel(),
    click.Option(["--sequence"], type=click.IntRange(1), metavar="N", help="Begin at this sequence."),
    click.Option(["--since"], metavar="TIME", help="Begin at what was stored then: RFC 3339, or 10m, 2h, 3d ago."),
    click.Option(["--from-start"], is_flag=True, help="Begin at the first event of the stream."),
    click.Option(["--until-sequence"], type=click.IntRange(1), metavar="N", help="End with this sequence."),
    click.Option(["--until"], metavar="TIME", help="End before what was stored then. Default: what is there now."),
    *params.wanted(),
    click.Option(["--to-subscription"], metavar="NAME", help="To this Subscription of the channel alone."),
    click.Option(["--to-channel"], metavar="CHANNEL", help="To all Subscriptions of this channel."),
    click.Option(["--to-same-channel"], is_flag=True, help="--to-channel may be the channel itself."),
    params.address("--to-uri", "To this address, by one POST each."),
    params.rate(),
    click.Option(["--run"], metavar="NAME", help="The name of an interrupted replay, to go on with it."),
    click.Option(["--checkpoint"], metavar="FILE", help="Keep there how far it is; goes on where FILE says."),
    params.dry_run(),
    rules=[
        *one_of("sequence", "since", "from_start", says="where to begin"),
        *one_of("until_sequence", "until", says="where to end"),
        Unless("to_same_channel", lambda given: given["to_channel"], "is for --to-channel: give it, too"),
        Unless(
            "run",
            lambda given: not given["to_uri"],
            "keeps a stream from storing an event twice, and --to-uri stores none: leave it out",
        ),
    ],
)

"""The words of `purge`, `rm-event`, `backup` and `restore`."""

from __future__ import annotations

from functools import partial

import click

from headrace_cli.commands import params
from headrace_cli.commands.rules import Given, Unless, obeying, one_of

PURGE = """\
Delete the events of a channel, all or up to a point. Before it asks, it says how many go and which Subscriptions have
not settled them; parked events stay. What came in since the question is not touched.

examples:
  kn jetstream purge orders --older-than 7d --dry-run
  kn jetstream purge orders --until-sequence 4711
  kn jetstream purge shop/orders --keep 1000 --yes
  kn jetstream purge orders --subject legacy.orders
  kn jetstream backup orders ./orders && kn jetstream purge orders --all
"""

REMOVE = """\
Delete single events of a channel by sequence, and overwrite their bytes on disk, as privacy may ask for. A parked copy
of one is not touched: `deadletter discard` deletes it.

examples:
  kn jetstream rm-event orders 4711
  kn jetstream rm-event shop/orders 4711 4712 --yes
"""

BACKUP = """\
Save a channel to a directory: its events with their sequences and times, its Subscriptions' positions, its parked
events. Events may come and go meanwhile: each stream is saved as it is when its turn begins. After an interruption the
same command goes on with the unfinished stream.

examples:
  kn jetstream backup orders ./orders-backup
  kn jetstream backup shop/orders "./orders-$(date +%F)"
"""

RESTORE = """\
Bring a channel back from a directory that `backup` has written, after its checksums were verified. Nothing is replaced:
its streams must be gone. A channel object of that name takes them over by their marks; stop the operator (or
`headrace up`) before, or it makes empty ones first.

examples:
  kn jetstream restore ./orders-backup --verify       only look whether it is whole
  kn jetstream restore ./orders-backup --yes
"""


def _run(verb: str, given: Given) -> int:
    from headrace_cli.commands.actions import storage

    return storage.run(verb, given)


COMMANDS = [
    params.verb(
        "purge",
        _run,
        params.Words(PURGE, "Delete events of a channel."),
        params.channel(),
        params.number("--until-sequence", "Up to this one, included.", least=1),
        params.value("--older-than", "SPAN", "Those stored longer ago: 90s, 10m, 2h, 3d."),
        params.number("--keep", "All but the newest so many.", least=1),
        params.value("--subject", "SUBJECT", "Only those on this NATS subject; wildcards will do."),
        params.flag("--all", "All of them."),
        params.dry_run(),
        params.yes(),
        obeys=[
            *one_of("until_sequence", "older_than", "keep", "all", says="how far"),
            Unless(
                "all",
                lambda given: given["subject"] is None,
                "is all of the channel, and --subject a part: leave out one of the two",
            ),
        ],
    ),
    params.verb(
        "rm-event",
        _run,
        params.Words(REMOVE, "Delete single events."),
        params.channel(),
        click.Argument(["sequences"], nargs=-1, required=True, type=click.IntRange(1), metavar="SEQUENCE..."),
        params.flag("--no-erase", "Only mark them as deleted, which is faster."),
        params.yes(),
    ),
    params.verb(
        "backup",
        _run,
        params.Words(BACKUP, "Save a channel to a directory."),
        params.channel(),
        click.Argument(["directory"], metavar="DIRECTORY"),
        params.flag("--again", "Replace what the directory holds."),
    ),
    params.Words(RESTORE, "Bring a saved channel back.").command(
        "restore",
        obeying(partial(_run, "restore"), ()),
        [
            click.Argument(["directory"], metavar="DIRECTORY"),
            params.flag("--verify", "Only verify the checksums."),
            params.yes(),
            *params.nats(),
        ],
    ),
]

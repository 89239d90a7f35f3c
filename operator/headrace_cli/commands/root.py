"""The whole tree of verbs."""

from __future__ import annotations

from typing import Any

import click

from headrace_cli.commands import (
    bench,
    channel,
    completion,
    convert,
    deadletter,
    hand_back,
    health,
    look,
    program,
    replay,
    send,
    storage,
    subscription,
    up,
)

HELP = """\
A Knative Eventing channel on NATS JetStream: see into it, send, watch, replay, recover.

`headrace` and `kn jetstream` are the same program. It finds NATS by --nats, by NATS_URL, or by the `headrace up` that
runs on this machine; credentials come from the NATS_* variables. A channel is named as NAME with -n, or as
NAMESPACE/NAME.
"""

EPILOG = """\
\b
examples:
  headrace up -f examples/minimal                 serve the manifests of a directory on this machine
  kn jetstream channel list -A                    which channels there are, and what they hold
  kn jetstream send orders --type greeting --data Hello
  kn jetstream tail orders                        watch events as they come

\b
exit status:
  0    it is done
  1    it could not be done: refused, not found, NATS away. `doctor`: something is wrong
  2    the command is wrong. `check` has its own: 0 ok, 1 warning, 2 critical, 3 unknown
  130  interrupted by Ctrl-C
"""


def _show_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"{program.name()} {program.version()}")
        context.exit()


def tree() -> click.Group:
    """All verbs, made anew."""
    commands: list[Any] = [
        up.COMMAND,
        channel.GROUP,
        subscription.GROUP,
        send.COMMAND,
        look.TAIL_COMMAND,
        look.PEEK_COMMAND,
        deadletter.GROUP,
        replay.COMMAND,
        *health.COMMANDS,
        *storage.COMMANDS,
        bench.COMMAND,
        convert.COMMAND,
        completion.COMMAND,
        hand_back.COMMAND,
    ]
    return click.Group(
        "headrace",
        help=HELP,
        epilog=EPILOG,
        commands=commands,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
        params=[
            click.Option(
                ["--version"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_show_version,
                help="Show the version and exit.",
            )
        ],
    )

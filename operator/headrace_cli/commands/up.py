"""`up`: its words. What it does is in `headrace_cli.laptop.up`."""

from __future__ import annotations

import signal
from typing import Any

import click

from headrace.core.errors import Misconfigured
from headrace_cli.commands import params
from headrace_cli.commands.rules import Given
from headrace_cli.laptop import options

HELP = """\
Run all of Headrace on this machine, with no cluster and nothing to install: channels and Subscriptions come
from manifest files, events are kept by a nats-server of its own, subscribers get them over HTTP. Nothing but
the receiver runs while no event waits.
"""

EPILOG = """\
\b
It prints one line, `ready`, with the address of every channel, when all of them accept events. When some do
not within 20 seconds, a line `partly ready` comes first, with the others and the reasons. The log goes to
stderr. The other verbs find it by themselves while it runs.

\b
  send      headrace send hello --type greeting --data Hello
            or: curl http://127.0.0.1:8080/default/hello -H 'content-type: text/plain' \\
              -H 'ce-specversion: 1.0' -H 'ce-id: 1' -H 'ce-source: /me' -H 'ce-type: greeting' -d 'Hello'
  look      headrace tail hello
  edit      change a file, then: kill -HUP <pid>. A channel that is in no file any more loses its events.
  stop      Ctrl-C: what subscribers are working on is finished; a second Ctrl-C ends it at once.

\b
examples:
  headrace up -f examples/minimal                 serve the manifests of a directory on this machine
  headrace up -f my.yaml --data ./events          keep the events for the next time

\b
The functions read the same environment variables as in a cluster (docs/settings.md), such as
FORWARD_MAX_IN_FLIGHT. The NATS_* ones count with --nats only.
"""


def _up(**given: Any) -> int:
    asked = _options_of(given)
    # No process runs yet that a Ctrl-C would have to end in order; as an exception it can be lost inside an import.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        from headrace_cli.laptop import up
    except ModuleNotFoundError as error:
        if error.name not in ("yaml", "prometheus_client"):
            raise
        raise Misconfigured(f"{error.name} is not installed: install the extra `laptop`", field="-f") from error
    return up.run(asked)


def _options_of(given: Given) -> options.UpOptions:
    return options.UpOptions(
        files=(*given["files"], *given["more"]),
        listen=options.listen(given["listen"]),
        data=options.path(given["data"], "--data"),
        nats=given["nats"],
        nats_port=given["nats_port"],
        idle_seconds=given["idle_seconds"],
        log_level=given["log_level"],
        status_file=options.path(given["status_file"], "--status-file"),
        metrics=None if given["metrics"] is None else options.listen(given["metrics"], "--metrics", "127.0.0.1:9464"),
    )


COMMAND = click.Command(
    "up",
    callback=_up,
    help=HELP,
    short_help="Run everything on this machine.",
    epilog=EPILOG,
    params=[
        params.value(
            "-f --file files",
            "FILE...",
            "Manifest file or directory: NatsJetStreamChannel (or Channel) and Subscription objects. "
            "Several may follow, and it may be repeated.",
            multiple=True,
            required=True,
        ),
        # The further files that a shell makes of -f *.yaml.
        click.Argument(["more"], nargs=-1, metavar=""),
        params.value(
            "--listen",
            "HOST:PORT",
            "Where events are received, under localhost and addresses; other names of this machine go into the "
            "variable RECEIVE_HOSTS. Port 0: any free one.",
            default="127.0.0.1:8080",
        ),
        params.value("--data", "DIR", "Keep events here. Default: a temporary directory, gone at the end."),
        params.value("--nats", "URL", "Use this NATS server instead of one of our own."),
        params.number(
            "--nats-port",
            "Port of our own NATS server, for Spark and other clients. Default: any free one.",
            least=1,
            most=65_535,
        ),
        click.Option(
            ["--idle-seconds"],
            type=float,
            default=10.0,
            metavar="S",
            show_default=True,
            help="How long forward and reconcile stay up with nothing to do.",
        ),
        params.value("--status-file", "PATH", "Write the state of everything to this file, as JSON, at each change."),
        params.value(
            "--metrics",
            "HOST:PORT",
            "Serve metrics for Prometheus at /metrics there. Default: nowhere; port 0: any free one.",
        ),
        params.choice(
            "--log-level",
            ("debug", "info", "warning", "error"),
            "Least severity to log; single deliveries are debug.",
            default="info",
        ),
    ],
)

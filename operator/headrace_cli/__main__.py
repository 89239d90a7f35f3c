"""The command line: `headrace`, and `kn jetstream` as a plugin. Each verb is a module; here are only its words.

Errors end here: exit status 2 for what the caller can cure, 1 for what only waiting cures.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import metadata

from headrace.core.errors import InvalidSpec, Misconfigured, Refused, Unavailable
from headrace_cli import options

DESCRIPTION = "A Knative Eventing channel on NATS JetStream, built from functions that scale to zero."

EXAMPLES = """\
examples:
  headrace up -f examples/minimal                 serve the manifests of a directory on this machine
  headrace up -f my.yaml --data ./events          keep the events for the next time

Each verb has its own help: headrace up --help
"""

UP = """\
Run all of Headrace on this machine, with no cluster and nothing to install: channels and Subscriptions come
from manifest files, events are kept by a nats-server of its own, subscribers get them over HTTP. Nothing but
the receiver runs while no event waits.
"""

UP_EXAMPLES = """\
It prints one line, `ready`, with the address of every channel, when all of them accept events. When some do
not within 20 seconds, a line `partly ready` comes first, with the others and the reasons. The log goes to
stderr.

  send      curl http://127.0.0.1:8080/default/hello -H 'content-type: text/plain' -H 'ce-specversion: 1.0' \\
              -H 'ce-id: 1' -H 'ce-source: /me' -H 'ce-type: greeting' -d 'Hello'
  edit      change a file, then: kill -HUP <pid>. A channel that is in no file any more loses its events.
  stop      Ctrl-C: what subscribers are working on is finished; a second Ctrl-C ends it at once.

The functions read the same environment variables as in a cluster (see the README), such as
FORWARD_MAX_IN_FLIGHT. Of the NATS_* ones NATS_CLIENT always counts, the others with --nats only.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    parser = _parser()
    given = parser.parse_args(arguments)
    verb: Callable[[argparse.Namespace], int] | None = getattr(given, "verb", None)
    if verb is None:
        parser.print_help()
        return 2
    try:
        return verb(given)
    except (Misconfigured, InvalidSpec) as error:
        sys.stderr.write(f"headrace: {error}\n")
        return 2
    except (Unavailable, Refused) as error:
        sys.stderr.write(f"headrace: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="headrace", description=DESCRIPTION, epilog=EXAMPLES, formatter_class=raw)
    parser.add_argument("--version", action="version", version=f"headrace {_version()}")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB")
    _add_up(
        verbs.add_parser(
            "up",
            help="run everything on this machine",
            description=UP,
            epilog=UP_EXAMPLES,
            formatter_class=raw,
        )
    )
    return parser


def _add_up(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(verb=_up)
    parser.add_argument(
        "-f",
        "--file",
        dest="files",
        action="extend",
        nargs="+",
        required=True,
        metavar="FILE",
        help="manifest file or directory: NatsJetStreamChannel (or Channel) and Subscription objects",
    )
    parser.add_argument(
        "--listen",
        default="127.0.0.1:8080",
        metavar="HOST:PORT",
        help="where events are received (default %(default)s; port 0: any free one)",
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="keep events here (default: a temporary directory, gone at the end)",
    )
    parser.add_argument("--nats", metavar="URL", help="use this NATS server instead of one of our own")
    parser.add_argument(
        "--idle-seconds",
        type=float,
        default=10.0,
        metavar="S",
        help="how long forward and reconcile stay with nothing to do (default %(default)g)",
    )
    parser.add_argument(
        "--status-file",
        metavar="PATH",
        help="write the state of everything there as JSON, anew at each change",
    )
    parser.add_argument(
        "--metrics",
        metavar="HOST:PORT",
        help="serve metrics for Prometheus at /metrics there (default: nowhere; port 0: any free one)",
    )
    parser.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="least severity to log (default %(default)s; single deliveries are debug)",
    )


def _up(given: argparse.Namespace) -> int:
    asked = options.UpOptions(
        files=tuple(given.files),
        listen=options.listen(given.listen),
        data=options.path(given.data, "--data"),
        nats=given.nats,
        idle_seconds=given.idle_seconds,
        log_level=given.log_level,
        status_file=options.path(given.status_file, "--status-file"),
        metrics=None if given.metrics is None else options.listen(given.metrics, "--metrics", "127.0.0.1:9464"),
    )
    # Nothing runs yet that a Ctrl-C would have to end in order; as an exception it can be lost inside an import.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        from headrace_cli import up
    except ModuleNotFoundError as error:
        if error.name not in ("yaml", "prometheus_client"):
            raise
        raise Misconfigured(f"{error.name} is not installed: install the extra `laptop`", field="-f") from error
    return up.run(asked)


def _version() -> str:
    try:
        return metadata.version("function")
    except metadata.PackageNotFoundError:
        return "(not installed)"


if __name__ == "__main__":
    sys.exit(main())

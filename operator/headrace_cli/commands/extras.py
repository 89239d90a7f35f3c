"""`bench`, `convert` and `completion`: their words, and the little that the latter two do."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from headrace.core.errors import Misconfigured
from headrace.core.plural import counted
from headrace_cli.commands import params
from headrace_cli.commands.params import Given
from headrace_cli.commands.running import on_nats, tell
from headrace_cli.commands.unused import Unless

if TYPE_CHECKING:
    from headrace_cli.manifests.documents import Document

BENCH = """\
Measure a channel: how fast it takes events, and how fast its Subscriptions settle them. The events are real ones of
type headrace.bench, and its subscribers get them, so it asks first.

They go over HTTP to a `headrace up` that runs here, or to --url; else straight into the stream. Where a Subscription
has `headrace.dev/delivery-order: by-key`, they have that many --keys in its `headrace.dev/order-key`: events of one key
are delivered one after the other, so few keys are slow.
"""

BENCH_EXAMPLES = params.examples("""\
  kn jetstream bench orders --events 10000 --size 1024 --parallel 20
  kn jetstream bench orders --rate 500 --events 30000 --yes -o json
  kn jetstream bench orders --publish-only --url http://receive.example.com/default/orders
""")

CONVERT = """\
Turn manifests of other systems into channels, Brokers, Triggers and Subscriptions: Kyma's Subscriptions and Eventing,
Argo's EventBus, EventSource and Sensor, and Knative's other channels. What has no equal, and what is yours to see to,
is told on standard error; with --strict the exit status is 1 when something had no equal.
"""

CONVERT_EXAMPLES = params.examples("""\
  kn jetstream convert -f old.yaml > new.yaml
  kn jetstream convert -f old.yaml --suffix=-js > new.yaml        Subscriptions beside the old ones
  kn jetstream convert -f subscriptions.yaml -f eventing.yaml -o json
  kubectl get sensors,eventbus -A -o yaml | kn jetstream convert -f - --strict > new.yaml
""")

COMPLETION = """\
Print what makes a shell complete verbs, options, and the names of channels and Subscriptions.
"""

COMPLETION_EXAMPLES = params.examples("""\
  source <(kn-jetstream completion bash)                                     bash; or in ~/.bashrc
  kn-jetstream completion zsh > "${fpath[1]}/_kn-jetstream"                  zsh
  kn-jetstream completion fish > ~/.config/fish/completions/kn-jetstream.fish

\b
It completes for `kn-jetstream` or `headrace`, by whichever name it was called: kn jetstream completion bash
""")


def _bench(**given: Any) -> int:
    from headrace_cli.events import bench

    return on_nats(given, lambda session: bench.bench(session, given))


def _convert(**given: Any) -> int:
    try:
        return _converted(given)
    except ModuleNotFoundError as error:
        if error.name != "yaml":
            raise
        raise Misconfigured("PyYAML is not installed: install the extra `kn`", field="-f") from error


def _converted(given: Given) -> int:
    from headrace_cli import convert
    from headrace_cli.view.output import text_of

    found = convert.convert((each for file in given["files"] for each in _documents(file)), given["suffix"])
    for note in found.notes:
        tell(str(note))
    if given["output"] == "json":
        click.echo(text_of({"apiVersion": "v1", "kind": "List", "items": found.objects}, "json"), nl=False)
    else:
        click.echo("---\n".join(text_of(each, "yaml") for each in found.objects), nl=False)
    lost = sum(note.lost for note in found.notes)
    if given["strict"] and lost:
        tell(f"{counted(lost, 'thing has', 'things have')} no equal")
        return 1
    return 0


def _documents(file: str) -> list[Document]:
    from headrace_cli.manifests import documents

    if file != "-":
        return documents.read_files([file])
    try:
        text = sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise Misconfigured(f"standard input is not UTF-8: {error}", field="-f") from error
    return documents.parse_text("standard input", text)


def _completion(**given: Any) -> int:
    from click.shell_completion import get_completion_class

    from headrace_cli.commands import root

    shell = get_completion_class(given["shell"])
    if shell is None:
        raise Misconfigured(f"{given['shell']} can't be completed for", field="SHELL")
    program = root.program()
    # A shell completes the words behind a program: of `kn jetstream` that is kn, which is not ours.
    name, variable = program.replace(" ", "-"), root.completion_variable(program)
    click.echo(shell(root.tree(), {}, name, variable).source())
    return 0


COMMANDS = [
    params.verb(
        "bench",
        _bench,
        params.Words(BENCH, BENCH_EXAMPLES, "Measure publishing and delivery."),
        params.channel(),
        click.Option(
            ["--events"], type=click.IntRange(1), default=1000, metavar="N", show_default=True, help="How many."
        ),
        click.Option(
            ["--size"],
            type=click.IntRange(0, 1_000_000),
            default=256,
            metavar="BYTES",
            show_default=True,
            help="Data of each event.",
        ),
        click.Option(
            ["--keys"],
            type=click.IntRange(1),
            default=100,
            metavar="N",
            show_default=True,
            help="Different keys of the events, in turn, where they are delivered by key.",
        ),
        click.Option(
            ["--parallel"],
            type=click.IntRange(1, 1000),
            default=10,
            metavar="N",
            show_default=True,
            help="How many are on their way at once.",
        ),
        params.rate(),
        click.Option(["--publish-only"], is_flag=True, help="Don't wait for Subscriptions."),
        click.Option(
            ["--wait"],
            type=click.FloatRange(min=0),
            default=60.0,
            metavar="S",
            show_default=True,
            help="How long to wait for Subscriptions, at most.",
        ),
        params.address("--url", "POST the events to this URL."),
        params.yes(),
        formats=("table", "json", "yaml"),
        rules=[
            Unless(
                "wait",
                lambda given: not given["publish_only"],
                "is for Subscriptions, which --publish-only does not wait for: leave out one of the two",
            )
        ],
    ),
    click.Command(
        "convert",
        callback=_convert,
        help=CONVERT,
        short_help="Convert manifests of other systems.",
        epilog=CONVERT_EXAMPLES,
        params=[
            click.Option(
                ["-f", "--file", "files"],
                multiple=True,
                required=True,
                metavar="FILE",
                help="Manifest file or directory; - for standard input. Repeatable.",
            ),
            click.Option(
                ["--suffix"],
                metavar="TEXT",
                default="",
                help="Append it to the names of Subscriptions, so that old and new ones deliver side by side.",
            ),
            click.Option(["--strict"], is_flag=True, help="Fail when something has no equal."),
            params.output("yaml", "json"),
        ],
    ),
    click.Command(
        "completion",
        callback=_completion,
        help=COMPLETION,
        short_help="Completion for bash, zsh and fish.",
        epilog=COMPLETION_EXAMPLES,
        params=[click.Argument(["shell"], type=click.Choice(("bash", "zsh", "fish")), metavar="SHELL")],
    ),
]

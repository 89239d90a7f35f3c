"""Options that several verbs have, and what their values mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import click

from headrace_cli.catalog.names import ChannelScope, NamespacedName, parse_ref
from headrace_cli.commands import rules
from headrace_cli.commands.rules import Given, Unless, obeying

DEFAULT_NAMESPACE = "default"


def examples(text: str) -> str:
    """Text that `--help` shows below the options, as it is."""
    return f"\b\nexamples:\n{text.rstrip()}"


class Words(NamedTuple):
    """What `--help` says of a verb.

    Attributes:
        short: for the list of verbs; default: the first sentence of the text.
    """

    text: str
    examples: str
    short: str | None = None


def verb(
    name: str,
    run: Callable[..., int],
    words: Words,
    *own: click.Parameter,
    every: bool = False,
    objects: bool = False,
    formats: Sequence[str] = (),
    obeys: Sequence[Unless] = (),
) -> click.Command:
    """A verb about what is in a namespace and in NATS: its own parameters, and behind them those that all have.

    Args:
        own: in the order in which `--help` shows them.
        every: it takes all namespaces, too.
        objects: it can ask a cluster's API server for them.
        formats: that it can show; the first is the default. None: there is nothing to choose.
        obeys: which of its own options have no effect when; those of namespaces are added.
    """
    named = next((each.name for each in own if each.name in ("channel", "subscription")), None)
    shared = [*namespace(every=every), *nats(), *(cluster() if objects else ())]
    if formats:
        shared.append(output(*formats))
    return click.Command(
        name,
        callback=obeying(run, [*obeys, *rules.of_namespaces(named or "", every=every)]),
        help=words.text,
        short_help=words.short,
        epilog=words.examples,
        params=[*own, *shared],
    )


def nats() -> list[click.Parameter]:
    """Where NATS is."""
    return [
        click.Option(
            ["--nats"],
            metavar="URL",
            help="NATS server. Default: NATS_URL, else that of the `headrace up` that runs here, else the local one; "
            "credentials and TLS come from the NATS_* variables.",
        )
    ]


def cluster() -> list[click.Parameter]:
    """Whether to ask a cluster's API server, and which."""
    return [
        click.Option(["--cluster"], is_flag=True, help="Ask the API server of the current kubeconfig, not NATS."),
        click.Option(["--kubeconfig"], metavar="FILE", help="Ask the API server of this kubeconfig."),
        click.Option(["--context"], metavar="NAME", help="Ask the API server of this context."),
    ]


def namespace(*, every: bool = False) -> list[click.Parameter]:
    """The namespace, and with `every` also `-A`."""
    found: list[click.Parameter] = [
        click.Option(
            ["-n", "--namespace"], metavar="NS", default=DEFAULT_NAMESPACE, show_default=True, help="Namespace."
        )
    ]
    if every:
        found.append(click.Option(["-A", "--all-namespaces"], is_flag=True, help="Those of all namespaces."))
    return found


def output(*formats: str) -> click.Option:
    """`-o`; the first format is the default."""
    return click.Option(
        ["-o", "--output"], type=click.Choice(formats), default=formats[0], show_default=True, help="How to show it."
    )


def channel() -> click.Argument:
    """The channel that is meant."""
    return click.Argument(["channel"], metavar="CHANNEL", shell_complete=_channels)


def subscription() -> list[click.Parameter]:
    """The Subscription that is meant."""
    return [
        click.Argument(["subscription"], metavar="SUBSCRIPTION", shell_complete=_subscriptions),
        click.Option(["--channel"], metavar="CHANNEL", help="Only if it is a Subscription of this channel."),
    ]


def event_filters() -> list[click.Parameter]:
    """Which events are meant."""
    return [
        click.Option(
            ["--type", "types"],
            multiple=True,
            metavar="PATTERN",
            help="Only of this type; * and ? stand for any. Repeatable.",
        ),  # a table row
        click.Option(
            ["--source", "sources"], multiple=True, metavar="PATTERN", help="Only of this source. Repeatable."
        ),
        click.Option(
            ["--attribute", "attributes"],
            multiple=True,
            metavar="NAME=PATTERN",
            help="Only with this value of an attribute or extension. Repeatable: all must match.",
        ),
    ]


def address(option: str, help: str) -> click.Option:
    """An address that is POSTed to; one that can't be is refused before anything is done."""

    def checked(_: click.Context, __: click.Parameter, given: str | None) -> str | None:
        from headrace.core.event.uri import checked_uri

        return None if given is None else checked_uri(given, field=option)

    return click.Option([option], metavar="URL" if option == "--url" else "URI", callback=checked, help=help)


def channel_of(given: Given) -> NamespacedName:
    """The channel that a verb's arguments name."""
    return parse_ref(given["channel"], given["namespace"])


def scope_of(given: Given) -> ChannelScope:
    """One channel, the channels of a namespace, or those of all."""
    if given.get("channel"):
        named = channel_of(given)
        return ChannelScope(named.namespace, named)
    return ChannelScope(None if given["all_namespaces"] else given["namespace"])


def yes() -> click.Option:
    return click.Option(["-y", "--yes"], is_flag=True, help="Don't ask.")


def dry_run() -> click.Option:
    return click.Option(["--dry-run"], is_flag=True, help="Only say what would be done.")


def rate() -> click.Option:
    return click.Option(
        ["--rate"], type=click.FloatRange(min=0, min_open=True), metavar="N", help="At most this many per second."
    )


def _channels(context: click.Context, _: click.Parameter, incomplete: str) -> Sequence[str]:
    from headrace_cli.commands import known_names

    return known_names.channels(context.params, incomplete)


def _subscriptions(context: click.Context, _: click.Parameter, incomplete: str) -> Sequence[str]:
    from headrace_cli.commands import known_names

    return known_names.subscriptions(context.params, incomplete)

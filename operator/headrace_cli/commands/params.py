"""Options that several verbs have, and what their values mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import click

from headrace_cli.catalog.names import ChannelScope, NamespacedName, parse_ref
from headrace_cli.commands import rules
from headrace_cli.commands.rules import Given, Unless, obeying

DEFAULT_NAMESPACE = "default"


class Words(NamedTuple):
    """The text of `--help`; what stands below its line `examples:` is shown below the options, as it is.

    Attributes:
        short: for the list of verbs; default: the first sentence of the text.
    """

    text: str
    short: str | None = None

    def command(self, name: str, run: Callable[..., int], parameters: list[click.Parameter]) -> click.Command:
        text, heading, lines = self.text.partition("\nexamples:\n")
        below = f"\b{heading}{lines.rstrip()}"
        return click.Command(name, callback=run, help=text, short_help=self.short, epilog=below, params=parameters)


def verb(
    name: str,
    run: Callable[[str, Given], int],
    words: Words,
    *own: click.Parameter,
    every: bool = False,
    objects: bool = False,
    formats: Sequence[str] = (),
    obeys: Sequence[Unless] = (),
) -> click.Command:
    """A verb about a namespace and NATS: its own parameters, and behind them those that all verbs have.

    Args:
        run: called with the name and the values of the options.
        own: its own parameters, in the order in which `--help` shows them.
        every: the verb takes all namespaces, too.
        objects: the verb can ask a cluster's API server for objects.
        formats: its output formats, the first by default. None: there is no choice.
        obeys: when its own options have no effect; the rules of namespaces are added.
    """
    named = next((each.name for each in own if each.name in ("channel", "subscription")), None)
    shared = [*namespace(every=every), *nats(), *(cluster() if objects else ())]
    if formats:
        shared.append(output(*formats))
    checked = obeying(partial(run, name), [*obeys, *rules.of_namespaces(named or "", every=every)])
    return words.command(name, checked, [*own, *shared])


def value(
    names: str, metavar: str, help: str, *, default: str | None = None, multiple: bool = False, required: bool = False
) -> click.Option:
    """An option that takes text.

    Args:
        names: the option's names, with a blank between two; the last may be its name in Python.
    """
    more = _default(default)
    return click.Option(names.split(), metavar=metavar, help=help, multiple=multiple, required=required, **more)


def number(
    names: str, help: str, *, least: int, most: int | None = None, default: int | None = None, metavar: str = "N"
) -> click.Option:
    """An option that takes a whole number, both bounds included."""
    kind = click.IntRange(least, most)
    return click.Option(names.split(), type=kind, metavar=metavar, help=help, **_default(default))


def seconds(name: str, help: str, *, default: float) -> click.Option:
    """An option that takes seconds, also parts of one."""
    return click.Option(
        [name], type=click.FloatRange(min=0), metavar="S", help=help, default=default, show_default=True
    )


def choice(names: str, among: Sequence[str], help: str, *, default: str | None = None) -> click.Option:
    return click.Option(names.split(), type=click.Choice(among), help=help, **_default(default))


def _default(default: str | int | None) -> dict[str, Any]:
    # To click even None is a default, with which a required option would never be missing.
    return {} if default is None else {"default": default, "show_default": default != ""}


def flag(names: str, help: str) -> click.Option:
    return click.Option(names.split(), is_flag=True, help=help)


def nats() -> list[click.Parameter]:
    """The address of NATS."""
    return [
        value(
            "--nats",
            "URL",
            "NATS server. Default: NATS_URL, else that of the `headrace up` that runs here, else the local one; "
            "credentials and TLS come from the NATS_* variables.",
        )
    ]


def cluster() -> list[click.Parameter]:
    """Whether to ask a cluster's API server, and which."""
    return [
        flag("--cluster", "Ask the API server of the current kubeconfig, not NATS."),
        value("--kubeconfig", "FILE", "Ask the API server of this kubeconfig."),
        value("--context", "NAME", "Ask the API server of this context."),
    ]


def namespace(*, every: bool = False) -> list[click.Parameter]:
    """The namespace, and with `every` also `-A`."""
    found: list[click.Parameter] = [value("-n --namespace", "NS", "Namespace.", default=DEFAULT_NAMESPACE)]
    if every:
        found.append(flag("-A --all-namespaces", "Those of all namespaces."))
    return found


def output(*formats: str) -> click.Option:
    """`-o`; the first format is the default."""
    return click.Option(
        ["-o", "--output"], type=click.Choice(formats), default=formats[0], show_default=True, help="How to show it."
    )


def channel() -> click.Argument:
    """The channel that a verb is about."""
    return click.Argument(["channel"], metavar="CHANNEL", shell_complete=_channels)


def subscription() -> list[click.Parameter]:
    """The Subscription that a verb is about."""
    return [
        click.Argument(["subscription"], metavar="SUBSCRIPTION", shell_complete=_subscriptions),
        value("--channel", "CHANNEL", "Only if it is a Subscription of this channel."),
    ]


def event_filters() -> list[click.Parameter]:
    """The options that select events."""
    return [
        value(
            "--type types", "PATTERN", "Only of this type; * and ? stand for any. Repeatable.", multiple=True
        ),  # a table row
        value("--source sources", "PATTERN", "Only of this source. Repeatable.", multiple=True),
        value(
            "--attribute attributes",
            "NAME=PATTERN",
            "Only with this value of an attribute or extension. Repeatable: all must match.",
            multiple=True,
        ),
    ]


def address(option: str, help: str) -> click.Option:
    """An address for POSTs; an impossible one is refused before any work is done."""

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
    return flag("-y --yes", "Don't ask.")


def dry_run() -> click.Option:
    return flag("--dry-run", "Only say what would be done.")


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

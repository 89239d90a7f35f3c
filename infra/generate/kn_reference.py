"""The reference in docs/kn-plugin.md, made from the parser of the command line.

An option that means the same to many verbs is explained once, above all of them; each verb then only names it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator

import click

from headrace_cli.commands import root

# An option that so many verbs have, in the same words, is explained once.
MANY = 7
# Names of an option with what it takes, and its meaning.
Row = tuple[str, str]


def contents() -> dict[tuple[str, str], str]:
    """By document and name of the place in it."""
    tree = root.tree()
    context = click.Context(tree, info_name="kn jetstream")
    commands = list(_commands(tree, context, ()))
    counted = Counter(row for _, command in commands for row in _rows(command))
    shared = [row for row, verbs in counted.items() if verbs >= MANY]
    head = ["### Options of many verbs", "", *_table(sorted(shared, key=lambda row: -counted[row])), ""]
    found = [_section(command, words, shared) for words, command in commands]
    return {("kn-plugin.md", "reference"): "\n".join([*head, *found])}


def _commands(
    group: click.Group, context: click.Context, above: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        words = (*above, name)
        if isinstance(command, click.Group):
            yield from _commands(command, context, words)
        else:
            yield words, command


def _section(command: click.Command, words: tuple[str, ...], shared: Container[Row]) -> str:
    usage = " ".join(f"`{part}`" for part in _arguments(command))
    lines = [f"### {' '.join(words)}" + (f" {usage}" if usage else ""), "", _prose(command.help or ""), ""]
    rows = list(_rows(command))
    if own := [row for row in rows if row not in shared]:
        lines += [*_table(own), ""]
    if others := [names for names, _ in rows if (names, _) in shared]:
        lines += [f"As for [many verbs](#options-of-many-verbs): {'; '.join(others)}.", ""]
    epilog = (command.epilog or "").replace("\b\n", "").strip("\n")
    return "\n".join([*lines, "```text", epilog, "```", ""])


def _rows(command: click.Command) -> Iterator[Row]:
    return ((_names(each), _meaning(each)) for each in command.params if isinstance(each, click.Option))


def _table(rows: list[Row]) -> list[str]:
    return ["| option | meaning |", "|---|---|", *(f"| {names} | {meaning} |" for names, meaning in rows)]


def _arguments(command: click.Command) -> list[str]:
    return [
        str(each.metavar or each.name)
        for each in command.params
        if isinstance(each, click.Argument) and each.metavar != ""
    ]


def _names(option: click.Option) -> str:
    shown = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    if option.is_flag:
        return shown
    kind = option.type
    values = "\\|".join(map(str, kind.choices)) if isinstance(kind, click.Choice) else (option.metavar or "")
    return f"{shown} {values}".rstrip()


def _meaning(option: click.Option) -> str:
    default = option.default
    shown = f" Default `{default}`." if option.show_default and default is not None else ""
    return _cell(f"{option.help or ''}{shown}{' Required.' if option.required else ''}")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("*", "\\*")


def _prose(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.replace("\b", "").strip().split("\n\n")).replace(
        "*", "\\*"
    )

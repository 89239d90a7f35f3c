"""The reference in docs/kn-plugin.md, made from the parser of the command line."""

from __future__ import annotations

from collections.abc import Iterator

import click

from headrace_cli.commands import root


def contents() -> dict[tuple[str, str], str]:
    """By document and name of the place in it."""
    tree = root.tree()
    context = click.Context(tree, info_name="kn jetstream")
    found = [_section(command, words) for words, command in _commands(tree, context, ())]
    return {("kn-plugin.md", "reference"): "\n".join(found)}


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


def _section(command: click.Command, words: tuple[str, ...]) -> str:
    usage = " ".join(f"`{part}`" for part in _arguments(command))
    lines = [f"### {' '.join(words)}" + (f" {usage}" if usage else ""), "", _prose(command.help or ""), ""]
    options = [option for option in command.params if isinstance(option, click.Option)]
    lines += ["| option | meaning |", "|---|---|"]
    lines += [f"| {_names(option)} | {_meaning(option)} |" for option in options]
    epilog = (command.epilog or "").replace("\b\n", "").strip("\n")
    return "\n".join([*lines, "", "```text", epilog, "```", ""])


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

"""What a command writes to the terminal, and what it asks there; the one place that calls `click.echo`.

Results go to standard output, everything beside them to standard error. Whatever strangers' names stand in a sentence,
a terminal obeys none of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import click

from headrace.core.errors import Misconfigured
from headrace.core.quoting import plain_lines
from headrace_cli.view.output import Column, Item, item_text, list_text


def say(text: str, *, err: bool = False) -> None:
    """Print a sentence, or several lines, for people."""
    click.echo(plain_lines(text), err=err)


def tell(text: str) -> None:
    """Print a remark beside the result, to standard error."""
    say(text, err=True)


def show(text: str) -> None:
    """Print a result that is laid out already, with its line end."""
    click.echo(plain_lines(text), nl=False)


def show_list(items: Sequence[Item], output: str, columns: Sequence[Column], *, none: str = "") -> None:
    """Show a list; for an empty table people also get `none` to read."""
    show(list_text(items, output, columns))
    if none and not items and output == "table":
        tell(none)


def show_item(item: Item, output: str, lines: Callable[[Item], str]) -> None:
    """Show one item; `lines` makes its text for people."""
    show(item_text(item, output, lines))


def confirmed(question: str, *, yes: bool, otherwise: str = "") -> bool:
    """Ask, unless `--yes` has answered.

    Args:
        otherwise: the sentence for a person who says no.

    Raises:
        Misconfigured: there is nobody to ask.
    """
    if yes:
        return True
    if not sys.stdin.isatty():
        raise Misconfigured(f"{question} There is no terminal to ask on: add --yes", field="--yes")
    agreed = click.confirm(plain_lines(question), err=True)
    if otherwise and not agreed:
        tell(otherwise)
    return agreed

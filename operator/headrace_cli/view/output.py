"""Values as text: a table, names, JSON or YAML. Pure; `headrace_cli.commands.console` prints what is made here.

A table is for people and may change; JSON and YAML are for scripts, and keep their keys.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

from headrace.core.quoting import plain, plain_lines

Item: TypeAlias = Mapping[str, Any]
Column: TypeAlias = tuple[str, Callable[[Item], object]]

_DOUBTFUL = re.compile(r"[^ -~\n]")


def column(heading: str, key: str = "") -> Column:
    """A column that shows one member of each item; by default the one with the heading's name."""
    return heading, itemgetter(key or heading.strip().lower())


def columns(headings: str) -> tuple[Column, ...]:
    """One column for each word, which shows the member of that name."""
    return tuple(map(column, headings.split()))


def list_text(items: Sequence[Item], output: str, columns: Sequence[Column]) -> str:
    """A list; JSON and YAML wrap it as `{"items": [...]}`, as Kubernetes does."""
    match output:
        case "table":
            return table(columns, items)
        case "name":
            return "".join(f"{plain_lines(name_of(item))}\n" for item in items)
        case _:
            return text_of({"items": list(items)}, output)


def item_text(item: Item, output: str, lines: Callable[[Item], str]) -> str:
    """One item; `lines` makes its text for people."""
    match output:
        case "table":
            return plain_lines(lines(item))
        case "name":
            return f"{plain_lines(name_of(item))}\n"
        case _:
            return text_of(item, output)


def name_of(item: Item) -> str:
    """The name of an item, as another verb takes it."""
    return f"{item['namespace']}/{item['name']}" if item.get("namespace") else str(item["name"])


def text_of(value: object, output: str) -> str:
    """JSON or YAML with a line end."""
    if output == "json":
        return harmless(json.dumps(value, indent=2, ensure_ascii=False)) + "\n"
    # Not for `--help`.
    import yaml

    # Through JSON, so that tuples and string enumerations are plain.
    written = json.dumps(value, ensure_ascii=False)

    class Dumper(yaml.SafeDumper):
        """YAML for people: text of several lines, such as a manifest in a ConfigMap, is shown as it is (`|`)."""

    def text(dumper: yaml.SafeDumper, each: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", each, style="|" if "\n" in each else None)

    Dumper.add_representer(str, text)
    # Without `allow_unicode` everything beyond ASCII is escaped; with it only what no terminal has.
    return str(yaml.dump(json.loads(written), Dumper=Dumper, sort_keys=False, allow_unicode=written.isprintable()))


def table(columns: Sequence[Column], items: Sequence[Item]) -> str:
    """Aligned columns under their headings; nothing for no items."""
    if not items:
        return ""
    rows = [[heading for heading, _ in columns]]
    rows += [[plain(str(cell(item))) for _, cell in columns] for item in items]
    widths = [max(len(row[place]) for row in rows) for place in range(len(columns))]
    lines = ("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "".join(f"{line}\n" for line in lines)


def fields(pairs: Sequence[tuple[str, object]], indent: str = "") -> str:
    """`Name:    value` lines, aligned; a name without a value is left out."""
    shown = [(name, value) for name, value in pairs if value not in (None, "")]
    width = max((len(name) for name, _ in shown), default=0) + 1
    return "".join(f"{indent}{f'{name}:'.ljust(width)}  {plain(str(value))}\n" for name, value in shown)


def harmless(text: str) -> str:
    """The same JSON without any sequence that a terminal would obey or that is no UTF-8.

    Only strings hold such characters, which can all be escaped there; line ends stay.
    """
    return _DOUBTFUL.sub(lambda found: found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1], text)

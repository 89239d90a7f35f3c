"""The picture of the house in docs/architecture.md: its rooms, and which imports which, from the code's own imports.

A room is a package; the modules that stand beside rooms are drawn as one. An arrow that follows from others is left
out: a room that imports `delivery` may import `event`, on which `delivery` stands. `headrace` and its `__init__` draw
nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "headrace": "functions/headrace",
    "headrace_operator": "operator/headrace_operator",
    "headrace_cli": "operator/headrace_cli",
    "pyspark_jetstream": "spark/pyspark_jetstream",
}
# Packages that are drawn room by room; any other is one room.
OPENED = ("headrace", "headrace.core", "headrace.io", "headrace_operator", "headrace_cli")
# What the modules beside the rooms of a package are.
BESIDE = {
    "headrace.core": "ground",
    "headrace.io": "web, tracing",
    "headrace_operator": "running, probes, metrics",
    "headrace_cli": "command line",
}

Arrows = set[tuple[str, str]]


def _modules() -> dict[str, Path]:
    found = {}
    for package, folder in PACKAGES.items():
        for file in sorted((ROOT / folder).rglob("*.py")):
            parts = (package, *file.relative_to(ROOT / folder).with_suffix("").parts)
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def _imported(file: Path) -> Iterator[str]:
    """Whatever is imported anywhere in a module, also where only types need it."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _rooms_and_arrows() -> tuple[list[str], Arrows]:
    known = _modules()
    packages = {name for name, file in known.items() if file.name == "__init__.py"}
    drawn = set()
    for name, file in known.items():
        for other in _imported(file):
            module = other if other in known else other.rpartition(".")[0]
            if module in known and _room(name, packages) != _room(module, packages):
                drawn.add((_room(name, packages), _room(module, packages)))
    faces = {name for name in known if name in OPENED and name not in {room for pair in drawn for room in pair}}
    return sorted({_room(name, packages) for name in known} - faces), drawn


def _room(module: str, packages: set[str]) -> str:
    """The innermost room that is drawn: `headrace.core.event`, `headrace.receive`, `headrace_operator.kube`."""
    room = module.split(".")[0]
    for part in module.split(".")[1:]:
        if room not in OPENED or f"{room}.{part}" not in packages:
            break
        room = f"{room}.{part}"
    return room


def _without_implied(drawn: Arrows) -> Arrows:
    reach = set(drawn)
    while more := {(a, d) for a, b in reach for c, d in drawn if b == c} - reach:
        reach |= more
    return {(a, c) for a, c in drawn if not any((a, b) in reach and (b, c) in reach for _, b in drawn)}


def contents() -> dict[tuple[str, str], str]:
    """The picture, by its document and its place there."""
    return {("architecture.md", "rooms"): _picture()}


def _picture() -> str:
    rooms, drawn = _rooms_and_arrows()
    lines = ["```mermaid", "flowchart TD"]
    for package, folder in PACKAGES.items():
        if package not in OPENED:
            lines.append(f'  {package}["{folder}"]')
            continue
        lines.append(f'  subgraph {package}_all["{folder}"]')
        for inner in (one for one in OPENED if one.startswith(f"{package}.")):
            lines.append(f'    subgraph {_id(inner)}_all["{inner.rpartition(".")[2]}"]')
            lines += [f"      {_box(room)}" for room in rooms if f"{room}.".startswith(f"{inner}.")]
            lines.append("    end")
        inside = [room for room in rooms if f"{room}.".startswith(f"{package}.") and not _within_inner(room)]
        lines += [f"    {_box(room)}" for room in inside]
        lines.append("  end")
    lines += [f"  {_id(a)} --> {_id(b)}" for a, b in sorted(_without_implied(drawn))]
    return "\n".join([*lines, "```"])


def _within_inner(room: str) -> bool:
    return any(f"{room}.".startswith(f"{one}.") for one in OPENED if "." in one)


def _box(room: str) -> str:
    return f'{_id(room)}["{BESIDE.get(room) or room.rpartition(".")[2] or room}"]'


def _id(room: str) -> str:
    return room.replace(".", "_")

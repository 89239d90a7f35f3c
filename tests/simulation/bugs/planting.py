"""Bugs to plant, each a small change of the real code: they measure the oracle, which has to find each of them soon.

A bug changes the product's modules, its private parts among them, in a process of its own. Its name is its function's,
and the docstring says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable

Plant = Callable[[], None]
BUGS: dict[str, Plant] = {}


def bug(plant: Plant) -> Plant:
    BUGS[plant.__name__.replace("_", "-")] = plant
    return plant


def nothing(*_: object) -> None:
    """In the place of what is left out."""

"""A name that somebody has typed, of a channel or a Subscription. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.errors import InvalidSpec, Misconfigured
from headrace.core.quoting import quoted


@dataclass(frozen=True, slots=True)
class Ref:
    """`name` in the namespace of the command, or `namespace/name`."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def ref(text: str, namespace: str) -> Ref:
    """Read such a name.

    Raises:
        Misconfigured: nothing can have that name.
    """
    # For `--help`, too, this module is imported: the grammar itself is not needed there.
    from headrace.core import names

    within, slash, name = text.rpartition("/")
    found = Ref(within if slash else namespace, name)
    try:
        names.channel(found.namespace, found.name)
    except InvalidSpec as error:
        raise Misconfigured(f"{quoted(text)} is no name, or namespace/name: {error}", field="NAME") from None
    return found

"""A name that somebody has typed, of a channel or a Subscription, and the scope that a verb looks at. Pure.

The modules of `headrace_cli.commands` import it for `--help`, too, so it imports the grammar of names only when it is
called.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.errors import InvalidSpec, Misconfigured
from headrace.core.quoting import quoted


@dataclass(frozen=True, slots=True)
class NamespacedName:
    """`name` in the namespace of the command, or `namespace/name`."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ChannelScope:
    """The channels that a verb looks at: one, those of a namespace, or all.

    Attributes:
        namespace: None: all namespaces. With a channel it is the channel's.
    """

    namespace: str | None
    channel: NamespacedName | None = None

    def covers(self, ref: NamespacedName) -> bool:
        return ref == self.channel if self.channel is not None else self.namespace in (None, ref.namespace)


def parse_ref(text: str, namespace: str) -> NamespacedName:
    """Parse `name` or `namespace/name`.

    Raises:
        Misconfigured: no object can have that name.
    """
    from headrace.core import names

    within, slash, name = text.rpartition("/")
    found = NamespacedName(within if slash else namespace, name)
    try:
        names.channel(found.namespace, found.name)
    except InvalidSpec as error:
        raise Misconfigured(f"{quoted(text)} is no name, or namespace/name: {error}", field="NAME") from None
    return found

"""Which of several ConfigMaps says how NATS is reached: the chosen one, else the first by a fixed order.

`headrace.core.installation.config_maps` knows their contents, `headrace.io.process.nats_config` the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import yaml

from headrace.core.quoting import quoted

PROPOSED_NAME, PEER_NAME = "config-jetstream", "config-nats"
# The third ConfigMap chooses among the others.
DEFAULTS_NAME, DEFAULTS_KEY = "config-ch-jetstream-defaults", "jetstream-dispatcher-config"


def order(named: str, chosen: str) -> tuple[str, ...]:
    """The ConfigMaps of the installation, in order: the first one that exists counts.

    Args:
        named: the setting's name, by default the Go channel's.
        chosen: the name in `clusterDefault.configName`; empty for none.
    """
    # The Go channel's exists for its own sake, so it comes last. A name that somebody has set here was meant.
    both = (PROPOSED_NAME, named) if named in (PEER_NAME, "") else (named, PROPOSED_NAME)
    return (chosen,) if chosen and chosen in both else tuple(dict.fromkeys(both))


def chosen(text: str) -> str | None:
    """The name in `clusterDefault.configName`, empty for none; None where the text can't be read.

    Args:
        text: the text under the key `jetstream-dispatcher-config`.
    """
    try:
        cluster = (yaml.safe_load(text) or {}).get("clusterDefault") or {}
        found = cluster.get("configName") or ""
    except (yaml.YAMLError, ValueError, AttributeError, LookupError, TypeError, ArithmeticError, RecursionError):
        return None
    return found if isinstance(found, str) else None


class Choice:
    """The present choice; one that can't be read, of which `reconcile` tells, leaves the choice before it."""

    def __init__(self) -> None:
        self._last = ""

    def now(self, text: str) -> str:
        """Args: as of `chosen`."""
        found = chosen(text)
        if found is not None:
            self._last = found
        return self._last


def remarks_on_choice(there: Sequence[str], chosen: str, mounted: Sequence[str]) -> Iterator[str]:
    """The settings that are not obeyed, for people.

    Args:
        there: the ConfigMaps with a key of ours, the one that counts first.
        mounted: all ConfigMaps that might have one.
    """
    choice = f"clusterDefault.configName of ConfigMap {DEFAULTS_NAME}"
    for name in there[1:]:
        yield f"ConfigMap {name} is not read beside {there[0]}: {choice} says which counts"
    if chosen and chosen not in mounted:
        yield unmounted(chosen)


def unmounted(chosen: str) -> str:
    """Why a choice of a ConfigMap has no effect."""
    return (
        f"clusterDefault.configName of ConfigMap {DEFAULTS_NAME} is {quoted(chosen)}, which is not mounted in the pods "
        "of the operator and of reconcile: name it at the installation, too (docs/install.md)"
    )

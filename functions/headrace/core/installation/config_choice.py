"""Which of several ConfigMaps says how NATS is reached: the chosen one, else the first by a fixed order.

`headrace.core.installation.config_maps` knows their contents, `headrace.io.process.nats_config` the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import yaml

from headrace.core.quoting import quoted

PROPOSED_NAME, PEER_NAME = "config-jetstream", "config-nats"
# The third one chooses among the others.
DEFAULTS_NAME, DEFAULTS_KEY = "config-ch-jetstream-defaults", "jetstream-dispatcher-config"


def order(named: str, chosen: str) -> tuple[str, ...]:
    """The ConfigMaps of the installation of which the first that is there counts.

    Args:
        named: by whoever installs it, by default the Go channel's.
        chosen: by `clusterDefault.configName`; empty: by nobody.
    """
    # The Go channel's is there for its own sake: it comes last. One that somebody has named here was meant.
    both = (PROPOSED_NAME, named) if named in (PEER_NAME, "") else (named, PROPOSED_NAME)
    return (chosen,) if chosen and chosen in both else tuple(dict.fromkeys(both))


def chosen(text: str) -> str | None:
    """What `clusterDefault.configName` says, empty where it says nothing; None where that can't be read.

    Args:
        text: of the key `jetstream-dispatcher-config`.
    """
    try:
        cluster = (yaml.safe_load(text) or {}).get("clusterDefault") or {}
        found = cluster.get("configName") or ""
    except (yaml.YAMLError, ValueError, AttributeError, LookupError, TypeError, ArithmeticError, RecursionError):
        return None
    return found if isinstance(found, str) else None


class Choice:
    """What is chosen now; a choice that can't be read any more, of which `reconcile` tells, leaves that of before."""

    def __init__(self) -> None:
        self._last = ""

    def now(self, text: str) -> str:
        """Args: as of `chosen`."""
        found = chosen(text)
        if found is not None:
            self._last = found
        return self._last


def remarks_on_choice(there: Sequence[str], chosen: str, mounted: Sequence[str]) -> Iterator[str]:
    """What is not obeyed, for people.

    Args:
        there: those that hold a key of ours, the one that counts first.
        mounted: all that might.
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

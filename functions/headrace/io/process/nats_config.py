"""Which of the mounted ConfigMaps says how NATS is reached, and what it says.

Each has a folder: `named` holds the one that the deployer names (`NATS_CONFIG_NAME`, by default the Go channel's),
`proposed` the proposal's `config-jetstream`, and `defaults` the one whose `clusterDefault.configName` chooses between
the others (ADR 024). A file in the directory itself counts as one in `named`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from headrace.core.installation import config_choice, config_maps
from headrace.core.installation.config_choice import PROPOSED_NAME, Choice
from headrace.core.installation.config_maps import KEYS, NatsConfig
from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.process.mount import texts

# A ConfigMap has a megabyte at most.
LONGEST_CONFIG = 1024 * 1024
NAMED, PROPOSED, DEFAULTS = "named", "proposed", "defaults"

Texts = Mapping[str, str]


def mounted(directory: str) -> dict[str, str]:
    """Every text that counts, by folder and key.

    Raises:
        Misconfigured: a file can't be read.
    """
    wanted = {"": KEYS, NAMED: KEYS, PROPOSED: KEYS, DEFAULTS: (config_choice.DEFAULTS_KEY,)}
    return {
        os.path.join(folder, key): text
        for folder, keys in wanted.items()
        for key, text in texts(os.path.join(directory, folder), keys, longest=LONGEST_CONFIG).items()
    }


def choose(settings: NatsSettings, found: Texts, choice: Choice) -> tuple[NatsConfig | None, str]:
    """The ConfigMap that counts, None where there is none; and its name.

    Args:
        choice: kept by the caller from one reading to the next.

    Raises:
        Misconfigured: the ConfigMap says something impossible.
    """
    named = settings.config_name or ""
    given = {named: _inside(found, NAMED) or _inside(found, "")}
    given.setdefault(PROPOSED_NAME, {})
    given[PROPOSED_NAME] = _inside(found, PROPOSED) or given[PROPOSED_NAME]
    chosen = choice.now(found.get(os.path.join(DEFAULTS, config_choice.DEFAULTS_KEY), ""))
    order = config_choice.order(named, chosen)
    there = [name for name in order if given.get(name)]
    if not there:
        return None, order[0]
    config = config_maps.read_nats(given[there[0]], name=there[0])
    beside = config_choice.remarks_on_choice(there, chosen, tuple(given))
    return (config and replace(config, remarks=(*config.remarks, *beside))), there[0]


def _inside(found: Texts, folder: str) -> dict[str, str]:
    return {os.path.basename(path): text for path, text in found.items() if os.path.dirname(path) == folder}

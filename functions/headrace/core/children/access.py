"""How the functions of a channel reach NATS: variables, and files that Secrets and ConfigMaps are mounted as.

Never a secret itself: the kubelet mounts it, and keeps the files as new as the Secret.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.settings import FunctionsSettings

CREDS_KEY = "nats.creds"
_DIRECTORY = "/etc/headrace/nats"


@dataclass(frozen=True, slots=True)
class Mount:
    """A Secret or a ConfigMap of the pods' namespace as a directory.

    Attributes:
        volume: name of the volume.
        secret, config_map: name of the object; one of the two.
        keys: those that are wanted, each a file of its name; empty for all.
    """

    volume: str
    path: str
    secret: str = ""
    config_map: str = ""
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Access:
    """What the pods of a channel are given for NATS.

    Attributes:
        variables: of the environment, by name, as `headrace.core.settings.NatsSettings` has them.
        own: it is this channel's alone, from its own namespace, and so must its functions be.
    """

    variables: tuple[tuple[str, str], ...] = ()
    mounts: tuple[Mount, ...] = ()
    own: bool = False


def by_settings(settings: FunctionsSettings) -> Access:
    """What the installation gives to all."""
    variables = [("NATS_URL", settings.functions_nats_url)] if settings.functions_nats_url else []
    if not settings.creds_secret:
        return Access(tuple(variables))
    mount = Mount("nats-creds", _DIRECTORY, secret=settings.creds_secret, keys=(CREDS_KEY,))
    return Access((*variables, ("NATS_CREDS_FILE", f"{_DIRECTORY}/{CREDS_KEY}")), (mount,))

"""How the functions of a channel reach NATS: variables, and files that Secrets and ConfigMaps are mounted as.

Never a secret itself: the kubelet mounts it, and keeps the files as new as the Secret.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from headrace.core import secret_files
from headrace.core.settings import FunctionsSettings

CREDENTIALS_DIRECTORY = "/etc/headrace/credentials"
"""Of Secrets, in a folder for each level: cluster, namespace, channel."""
CONFIG_DIRECTORY = "/etc/headrace/nats-config"


@dataclass(frozen=True, slots=True)
class File:
    """One key of a Secret or ConfigMap of the pods' namespace, as a file.

    Attributes:
        key: empty for all of them, each as a file of its name.
        optional: pods start without it, too.
    """

    key: str = ""
    file: str = ""
    secret: str = ""
    config_map: str = ""
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Mount:
    """A directory of such files; `volume` is its name in the pod."""

    volume: str
    path: str
    files: tuple[File, ...]


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

    def with_credentials(self, level: str, files: Iterable[File]) -> Access:
        """Further ones, of this level: cluster, namespace or channel, which is a channel's own."""
        mount = Mount(f"nats-{level}", f"{CREDENTIALS_DIRECTORY}/{level}", tuple(files))
        told = self._with_variable("NATS_CREDENTIALS_DIR", CREDENTIALS_DIRECTORY)
        return replace(told, mounts=(*self.mounts, mount), own=self.own or level == "channel")

    def with_config_map(self, name: str) -> Access:
        """A ConfigMap that says where NATS is."""
        # Optional: a namespace without it, whose functions are told NATS_URL, is no reason for pods that never start.
        mount = Mount("nats-config", CONFIG_DIRECTORY, (File(config_map=name, optional=True),))
        told = self._with_variable("NATS_CONFIG_DIR", CONFIG_DIRECTORY)._with_variable("NATS_CONFIG_NAME", name)
        return replace(told, mounts=(*self.mounts, mount))

    def _with_variable(self, name: str, value: str) -> Access:
        return replace(self, variables=(*(one for one in self.variables if one[0] != name), (name, value)))


def by_settings(settings: FunctionsSettings) -> Access:
    """What the installation gives to all."""
    access = Access((("NATS_URL", settings.functions_nats_url),) if settings.functions_nats_url else ())
    if settings.nats_config_map:
        access = access.with_config_map(settings.nats_config_map)
    if settings.creds_secret:
        access = access.with_credentials("cluster", _files(settings.creds_secret))
    return access


def with_own(access: Access, secret: str) -> Access:
    """What a channel brings of its own, if anything: the keys that its Secret has."""
    return access.with_credentials("channel", _files(secret)) if secret else access


def _files(secret: str) -> list[File]:
    return [File(one.key, one.file, one.secret, optional=one.optional) for one in secret_files.of_secret(secret)]

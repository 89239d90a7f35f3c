"""How the functions of a channel reach NATS: variables, and files that Secrets and ConfigMaps are mounted as.

A Secret's body is never here: the kubelet mounts it, and keeps the files as new as the Secret.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from headrace.core.caller_token import DeliveryKeys, Digests
from headrace.core.installation import secret_files
from headrace.core.installation.config_choice import PROPOSED_NAME
from headrace.core.installation.reconcile_settings import FunctionsSettings
from headrace.core.installation.secret_files import OF_FUNCTION, SecretFile
from headrace.core.security.document import CONFIG_MAP

CREDENTIALS_DIRECTORY = "/etc/headrace/credentials"
"""Where Secrets are mounted, in a folder for each level: cluster, namespace, channel."""
CONFIG_DIRECTORY = "/etc/headrace/nats-config"
SECURITY_DIRECTORY = "/etc/headrace/security"
"""Where the security document of the pods' namespace is mounted, whether there is one or not: an edit of a flag
restarts nothing."""
TLS_DIRECTORY = "/etc/headrace/tls"
NAMED_VOLUME = "nats-namespace"
"""The volume of the Secrets that a ConfigMap names."""
LONGEST_NAME = 253


@dataclass(frozen=True, slots=True)
class MountedFile:
    """One key of a Secret or ConfigMap of the pods' namespace, as a file.

    Attributes:
        key: empty for all keys, each as a file of its name.
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
    files: tuple[MountedFile, ...]


@dataclass(frozen=True, slots=True)
class NatsMounts:
    """The files and variables by which a channel's pods reach NATS and know their callers.

    Attributes:
        variables: of the environment, by name, as `headrace.core.installation.nats_settings.NatsSettings` has them.
        own: the credentials are this channel's alone, from its own namespace; so its functions have to be there, too.
        whole: level and name of the Secrets that are mounted whole: beside each a function may have one of its own.
        digests: of the tokens that callers show to each function; None where no function is called.
        delivery_keys: the keys by which functions know one another's deliveries; None without a shared token.
    """

    variables: tuple[tuple[str, str], ...] = ()
    mounts: tuple[Mount, ...] = ()
    own: bool = False
    whole: tuple[tuple[str, str], ...] = ()
    digests: Digests | None = None
    delivery_keys: DeliveryKeys | None = None

    def with_credentials(self, level: str, files: Iterable[MountedFile]) -> NatsMounts:
        """With further credentials, of the level cluster, namespace or channel; the last are the channel's own."""
        mount = Mount(f"nats-{level}", f"{CREDENTIALS_DIRECTORY}/{level}", tuple(files))
        told = self._with_variable("NATS_CREDENTIALS_DIR", CREDENTIALS_DIRECTORY)
        return replace(told, mounts=(*self.mounts, mount), own=self.own or level.startswith("channel"))

    def with_secret(self, level: str, secret: str) -> NatsMounts:
        """With a Secret of this level, mounted whole: its known keys, as far as they are there."""
        told = self.with_credentials(level, _files(secret_files.of_secret(secret)))
        return replace(told, whole=(*self.whole, (level, secret)))

    def with_named(self, secrets: Iterable[SecretFile]) -> NatsMounts:
        """With the Secrets that the ConfigMap of the pods' namespace names; a missing one must not hold up pods."""
        files = [replace(one, optional=True) for one in _files(secrets)]
        return self.with_credentials("namespace", files) if files else self

    def for_function(self, target: str) -> NatsMounts:
        """With the credentials of this function alone: a Secret `<name>-<function>` beside each one mounted whole."""
        own = [(level, f"{secret}-{target}") for level, secret in self.whole]
        told = self
        for level, secret in own:
            # No object can have a longer name.
            if len(secret) <= LONGEST_NAME:
                told = told.with_credentials(f"{level}{OF_FUNCTION}", _files(secret_files.of_secret(secret)))
        told = told._with_variable("NATS_FUNCTION_INBOX_PREFIX", f"_INBOX_{target}") if own else told
        return told if target == "reconcile" else told._with_security()

    def with_certificate(self, secret: str) -> NatsMounts:
        """With the certificate that it shows to clients, once there is one."""
        files = tuple(MountedFile(key, key, secret, optional=True) for key in ("tls.crt", "tls.key"))
        told = self._with_variable("RECEIVE_TLS_DIR", TLS_DIRECTORY)
        return replace(told, mounts=(*told.mounts, Mount("tls", TLS_DIRECTORY, files)))

    def _with_security(self) -> NatsMounts:
        files = (MountedFile(config_map=CONFIG_MAP, optional=True),)
        told = self._with_variable("HEADRACE_SECURITY_DIR", SECURITY_DIRECTORY)
        return replace(told, mounts=(*told.mounts, Mount("security", SECURITY_DIRECTORY, files)))

    def with_config_map(self, name: str) -> NatsMounts:
        """With a ConfigMap that tells where NATS is, and the proposal's beside it (`config_choice.order`)."""
        told = self._with_config_map(name, "/named")
        proposed = MountedFile(config_map=PROPOSED_NAME, optional=True)
        mount = Mount("nats-config-proposed", f"{CONFIG_DIRECTORY}/proposed", (proposed,))
        return replace(told, mounts=(*told.mounts, mount)) if name != PROPOSED_NAME else told

    def with_chosen_config_map(self, name: str) -> NatsMounts:
        """With this ConfigMap alone."""
        return self._with_config_map(name, "")

    def _with_config_map(self, name: str, folder: str) -> NatsMounts:
        # Optional: pods must start in a namespace without it, whose functions have NATS_URL.
        mount = Mount("nats-config", CONFIG_DIRECTORY + folder, (MountedFile(config_map=name, optional=True),))
        told = self._with_variable("NATS_CONFIG_DIR", CONFIG_DIRECTORY)._with_variable("NATS_CONFIG_NAME", name)
        return replace(told, mounts=(*self.mounts, mount))

    def _with_variable(self, name: str, value: str) -> NatsMounts:
        return replace(self, variables=(*(one for one in self.variables if one[0] != name), (name, value)))


def by_settings(
    settings: FunctionsSettings,
    digests: Digests | None = None,
    delivery_keys: DeliveryKeys | None = None,
    *,
    config_map: str = "",
) -> NatsMounts:
    """The mounts that the installation gives to all channels.

    Args:
        config_map: the ConfigMap that `configName` chooses for these pods.
    """
    variables = (("NATS_URL", settings.functions_nats_url),) if settings.functions_nats_url else ()
    access = NatsMounts(variables, digests=digests, delivery_keys=delivery_keys)
    if config_map:
        access = access.with_chosen_config_map(config_map)
    elif settings.nats_config_map:
        access = access.with_config_map(settings.nats_config_map)
    return access.with_secret("cluster", settings.creds_secret) if settings.creds_secret else access


def with_own(access: NatsMounts, secret: str) -> NatsMounts:
    """With the keys of the channel's own Secret, if it has one."""
    return access.with_secret("channel", secret) if secret else access


def _files(secrets: Iterable[SecretFile]) -> list[MountedFile]:
    return [MountedFile(one.key, one.file, one.secret, optional=one.optional) for one in secrets]

"""Which file of a mounted Secret is which setting of NATS, and how Secrets at several levels combine.

Knows names of files and the fields of `NatsSettings`. Reads nothing: `headrace.io.process.mount` does, and the makers
of pods mount Secrets by the same names (`SecretFile`). A body of a Secret travels on no other way.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import SecretStr

from headrace.core.errors import Misconfigured

# The Go channel's name for a credentials file, Kubernetes' own for kubernetes.io/tls and basic-auth.
CREDENTIALS = "nats.creds"
SEED = "nkey.seed"
TOKEN = "token"
USER, PASSWORD = "username", "password"
CERTIFICATE, KEY, CA = "tls.crt", "tls.key", "ca.crt"
INBOX = "inbox.prefix"
"""Where the user of these credentials may get answers, if not below `_INBOX`: no secret, but it goes with them."""
FILES = (CREDENTIALS, SEED, TOKEN, USER, PASSWORD, CERTIFICATE, KEY, CA, INBOX)

OF_FUNCTION = "-function"
LEVELS = (f"channel{OF_FUNCTION}", "channel", "namespace", f"cluster{OF_FUNCTION}", "cluster")
"""The directories of credentials, from the most special to the most general: of one channel, of the Secrets that a
ConfigMap in the pods' namespace names, and of the installation; `-function` is for this function alone.
"""
INBOX_PREFIX = r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$"
_INBOX_PREFIX = re.compile(INBOX_PREFIX)

# More than any of them needs: a credentials file has 2 KiB, a bundle of CAs some hundred.
LONGEST_FILE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class SecretFile:
    """One key of a Secret to mount.

    Attributes:
        secret: its name, in the namespace of the ConfigMap, or channel, that names it.
        key: the key in the Secret.
        file: the name of the mounted file, one of FILES.
        optional: the pods may start without it.
    """

    secret: str
    key: str
    file: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Level:
    """One directory of credentials as it was read.

    Attributes:
        directory: where it is.
        texts: the texts of the files that are there, without white space around; never shown.
    """

    directory: str
    texts: Mapping[str, str] = field(repr=False)

    @property
    def of_function(self) -> bool:
        """Are these the credentials of one function, and not the ones that all share?"""
        return self.directory.endswith(OF_FUNCTION)

    def path(self, file: str) -> str:
        return f"{self.directory}/{file}"


def of_secret(name: str) -> tuple[SecretFile, ...]:
    """All files of a Secret that is referenced whole, as by `spec.connection.secretRef`; each may be missing."""
    return tuple(SecretFile(name, file, file, optional=True) for file in FILES)


def settings(levels: Sequence[Level], function_inbox: str | None = None) -> dict[str, Any]:
    """The fields of `NatsSettings` that mounted Secrets fill.

    Identity, client certificate and CA each come whole from the first level that has it: a channel's own credentials
    go along with the cluster's CA. The prefix of inboxes goes along with the identity.

    Args:
        levels: from the most special to the most general.
        function_inbox: the prefix for credentials of this function alone that tell no other one.

    Raises:
        Misconfigured: a level has two ways to authenticate, or half of one, or an invalid prefix.
    """
    found: dict[str, Any] = {}
    for level in reversed(levels):
        own = _identity(level)
        if own:
            found = {name: value for name, value in found.items() if name.startswith("tls_")} | own
        certificate = _together(level, CERTIFICATE, KEY)
        if certificate:
            found |= {"tls_cert_file": level.path(CERTIFICATE), "tls_key_file": level.path(KEY)}
        if own or certificate:
            found.pop("inbox_prefix", None)
            prefix = _inbox(level) or (function_inbox if level.of_function else None)
            if prefix:
                found["inbox_prefix"] = prefix
        if CA in level.texts:
            found["tls_ca_file"] = level.path(CA)
    return found


def _inbox(level: Level) -> str | None:
    given = level.texts.get(INBOX)
    if given is not None and not _INBOX_PREFIX.fullmatch(given):
        path = level.path(INBOX)
        raise Misconfigured(f"{path} is {given[:40]!r}: give the beginning of a subject, as _INBOX_forward", field=path)
    return given


def _identity(level: Level) -> dict[str, Any]:
    texts = level.texts
    with_password = _together(level, USER, PASSWORD)
    ways = [file for file in (CREDENTIALS, SEED, TOKEN) if file in texts] + ([USER] if with_password else [])
    if len(ways) > 1:
        problem = f"{level.directory} holds {' and '.join(ways)}: keep one way to authenticate in a Secret"
        raise Misconfigured(problem, field=level.path(ways[1]))
    empty = next((file for file in FILES if file in texts and not texts[file]), None)
    if empty is not None:
        raise Misconfigured(f"{level.path(empty)} is empty: fill the key of its Secret", field=level.path(empty))
    match ways:
        case [file] if file == CREDENTIALS:
            return {"creds_file": level.path(CREDENTIALS)}
        case [file] if file == SEED:
            return {"nkey_seed_file": level.path(SEED)}
        case [file] if file == TOKEN:
            return {"token": SecretStr(texts[TOKEN])}
        case [_]:
            return {"user": texts[USER], "password": SecretStr(texts[PASSWORD])}
    return {}


def _together(level: Level, one: str, other: str) -> bool:
    present: Collection[str] = level.texts
    if (one in present) != (other in present):
        missing, there = (other, one) if one in present else (one, other)
        problem = f"{level.directory} holds {there} without {missing}: give both keys in its Secret"
        raise Misconfigured(problem, field=level.path(missing))
    return one in present

"""NATS' address, our identity and our trust right now: from settings, mounted ConfigMap and mounted Secrets.

Every file is read at each connect, so a change on disk takes effect without a restart; when the new text can't be used,
the last good one stays in force (`headrace.io.process.mount`). The engine uses it.
"""

from __future__ import annotations

import hashlib
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.core import trust
from headrace.core.errors import Misconfigured
from headrace.core.installation import secret_files
from headrace.core.installation.nats_settings import NatsSettings
from headrace.core.installation.secret_files import Level
from headrace.core.nats.nats_wire import Credentials, Server, read_credentials, read_servers, signed, user_or_token
from headrace.io.process import log, tls
from headrace.io.process.mount import LastGood, Reading, directories, texts

if TYPE_CHECKING:
    from headrace.core.installation.config_choice import Choice

_log = log.get("nats")


@dataclass(frozen=True, slots=True)
class Entry:
    """The material of one connect.

    Attributes:
        settings: with the values of the mounts; its files have been read.
        credentials: of a credentials file or a seed file.
        tls: None when the settings don't ask for TLS; when a server asks for it, `context` makes one.
        print: a fingerprint: it differs between any two entries that differ.
    """

    settings: NatsSettings
    credentials: Credentials | None = field(repr=False)
    tls: ssl.SSLContext | None
    print: bytes

    @property
    def has_identity(self) -> bool:
        given = self.settings
        return bool(self.credentials or given.user or given.token or given.tls_cert_file)

    def identity(self, server: Server, nonce: str) -> dict[str, str]:
        """The fields of CONNECT that say who we are; userinfo in the URL wins.

        Raises:
            Misconfigured: the seed can't sign.
        """
        given = self.settings
        if server.user is not None:
            return user_or_token(server.user, server.password)
        if self.credentials is not None:
            return signed(self.credentials, nonce, origin=self.credentials_setting)
        if given.user is not None and given.password is not None:
            return user_or_token(given.user, given.password.get_secret_value())
        if given.token is not None:
            return {"auth_token": given.token.get_secret_value()}
        return {}

    @property
    def credentials_setting(self) -> str:
        return "NATS_CREDS_FILE" if self.settings.creds_file else "NATS_NKEY_SEED_FILE"

    def wants_tls(self, server: Server) -> bool:
        """Has the deployer asked for TLS? Then a server that does not offer it gets no word of ours."""
        return server.tls or self.asks_for_tls

    @property
    def asks_for_tls(self) -> bool:
        return self.tls is not None

    def context(self) -> ssl.SSLContext:
        """A context that trusts the CA of the settings, else the system's, and shows our certificate, if any."""
        return self.tls or tls.of_system()


class NatsAccess:
    """Reads the entry again at each call of `now`."""

    def __init__(self, settings: NatsSettings) -> None:
        self._settings = settings
        self._entry: Entry | None = None
        self._last_good = LastGood(self._make_entry)
        self._remarks: tuple[str, ...] = ()
        self._choice: Choice | None = None

    @property
    def mounted(self) -> bool:
        """Is there a file or a mount that may change between two connects?"""
        given = self._settings
        files = (given.creds_file, given.nkey_seed_file, given.tls_ca_file, given.tls_cert_file, given.tls_key_file)
        return any((given.config_dir, given.credentials_dir, *files))

    def now(self) -> Reading[Entry]:
        """The entry in force.

        Raises:
            Misconfigured: no entry can be read, and none ever could.
        """
        return self._last_good.now()

    def _make_entry(self) -> Entry:
        settings = self._effective()
        credentials, digest = None, hashlib.blake2b(repr(settings.model_dump_json()).encode())
        digest.update(_secrets_of(settings))
        if settings.creds_file or settings.nkey_seed_file:
            setting = "NATS_CREDS_FILE" if settings.creds_file else "NATS_NKEY_SEED_FILE"
            text = _text(settings.creds_file or settings.nkey_seed_file or "", setting)
            credentials = read_credentials(text, origin=setting)
            # So a seed that can't sign is found now, not when a server asks for a signature.
            signed(credentials, "nonce", origin=setting)
            digest.update(text.encode())
        for path in (settings.tls_ca_file, settings.tls_cert_file, settings.tls_key_file):
            digest.update(_bytes(path) if path else b"-")
        if _asks_for_tls(settings) and not _authorities(settings):
            digest.update(repr(tls.system_stamps()).encode())
        read_servers(settings.url, origin="NATS_URL")
        before, print_ = self._entry, digest.digest()
        if before is not None and before.print == print_:
            return before
        entry = Entry(settings, credentials, _tls(settings), print_)
        if before is not None and before.has_identity and not entry.has_identity:
            raise Misconfigured(
                f"{settings.credentials_dir} holds no credentials any more: mount the Secret again, or start "
                "anew to go without",
                field="NATS_CREDENTIALS_DIR",
            )
        self._entry = entry
        return entry

    def _effective(self) -> NatsSettings:
        given = self._settings
        config, secrets = None, {}
        if given.config_dir:
            # Imported on demand: it brings YAML.
            from headrace.core.installation import config_choice
            from headrace.io.process import nats_config

            self._choice = self._choice or config_choice.Choice()
            config, _ = nats_config.choose(given, nats_config.mounted(given.config_dir), self._choice)
            self._tell(config.remarks if config else ())
        if given.credentials_dir:
            found = [
                Level(each, texts(each, secret_files.FILES, longest=secret_files.LONGEST_FILE))
                for each in directories(given.credentials_dir, secret_files.LEVELS)
            ]
            secrets = secret_files.settings(found, given.function_inbox_prefix)
        return given.overridden(config, secrets) if config or secrets else given

    def _tell(self, remarks: tuple[str, ...]) -> None:
        if remarks != self._remarks:
            self._remarks = remarks
            for remark in remarks:
                _log.warning("not all of the ConfigMap is obeyed", why=remark)


def _asks_for_tls(settings: NatsSettings) -> bool:
    return bool(settings.tls_first or _authorities(settings) or settings.tls_cert_file)


def _authorities(settings: NatsSettings) -> str | None:
    return settings.tls_ca_file or settings.tls_ca


def _tls(settings: NatsSettings) -> ssl.SSLContext | None:
    # Made only on demand: the system's CAs take 10 ms to load.
    if not _asks_for_tls(settings):
        return None
    try:
        given = [Path(settings.tls_ca_file).read_bytes()] if settings.tls_ca_file else []
        given += [settings.tls_ca.encode()] if settings.tls_ca else []
        context = trust.context(b"\n".join(given)) if given else tls.of_system()
        if settings.tls_cert_file and settings.tls_key_file:
            context.load_cert_chain(settings.tls_cert_file, settings.tls_key_file)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError, too
        raise Misconfigured(
            f"the TLS files for NATS can't be read ({error}): check NATS_TLS_CA_FILE, NATS_TLS_CERT_FILE and "
            "NATS_TLS_KEY_FILE",
            field="NATS_TLS_CA_FILE",
        ) from error
    return context


def _secrets_of(settings: NatsSettings) -> bytes:
    """The secrets. The dump of the settings hides them, but a new password is a new entry, too."""
    secrets = (settings.password, settings.token)
    return b"\0".join(one.get_secret_value().encode(errors="surrogateescape") if one else b"" for one in secrets)


def _text(path: str, setting: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error if isinstance(error, OSError) else "it is no text"
        raise Misconfigured(f"{setting} is {path!r}, which can't be read: {reason}", field=setting) from error


def _bytes(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        # `_tls` reports the error, with more detail.
        return str(error).encode()

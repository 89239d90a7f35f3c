"""Who we are to a server, and whom we trust: the fields of CONNECT and the TLS context.

Every file is read at each connect, so what is rotated on disk takes effect without a restart.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from headrace.core.errors import Misconfigured
from headrace.core.nats_wire import Credentials, Server, read_credentials, signed, user_or_token
from headrace.core.settings import NatsSettings


def identity(settings: NatsSettings, server: Server, nonce: str) -> dict[str, str]:
    """The fields of CONNECT that say who we are; userinfo in the URL wins.

    Raises:
        Misconfigured: a file can't be read, or does not hold what it should.
    """
    if server.user is not None:
        return user_or_token(server.user, server.password)
    if settings.creds_file:
        return signed(_read(settings.creds_file, "NATS_CREDS_FILE"), nonce, origin="NATS_CREDS_FILE")
    if settings.nkey_seed_file:
        return signed(_read(settings.nkey_seed_file, "NATS_NKEY_SEED_FILE"), nonce, origin="NATS_NKEY_SEED_FILE")
    if settings.user is not None and settings.password is not None:
        return user_or_token(settings.user, settings.password.get_secret_value())
    if settings.token is not None:
        return {"auth_token": settings.token.get_secret_value()}
    return {}


def wants_tls(settings: NatsSettings, server: Server) -> bool:
    """Has the deployer asked for TLS? Then nothing is said to a server that does not offer it."""
    return bool(server.tls or settings.tls_first or settings.tls_ca_file or settings.tls_cert_file)


def tls_context(settings: NatsSettings) -> ssl.SSLContext:
    """Trusts the CA of the settings, else the system's; shows our certificate, if there is one.

    Raises:
        Misconfigured: a file can't be read.
    """
    try:
        context = ssl.create_default_context(cafile=settings.tls_ca_file)
        if settings.tls_cert_file and settings.tls_key_file:
            context.load_cert_chain(settings.tls_cert_file, settings.tls_key_file)
    except OSError as error:  # ssl.SSLError is one, too
        raise Misconfigured(
            f"the TLS files for NATS can't be read ({error}): check NATS_TLS_CA_FILE, NATS_TLS_CERT_FILE and "
            "NATS_TLS_KEY_FILE",
            field="NATS_TLS_CA_FILE",
        ) from error
    return context


def _read(path: str, setting: str) -> Credentials:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{setting} is {path!r}, which can't be read: {error}", field=setting) from error
    return read_credentials(text, origin=setting)

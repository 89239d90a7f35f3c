"""Who we are to a server, and whom we trust: the fields of CONNECT and the TLS context.

Every file is read at each connect, so what is rotated on disk takes effect without a restart.
"""

from __future__ import annotations

import base64
import ssl
from pathlib import Path

from headrace.core.errors import Misconfigured
from headrace.core.nats_wire import Credentials, read_credentials
from headrace.core.settings import NatsSettings
from headrace.io.engine.servers import Server


def identity(settings: NatsSettings, server: Server, nonce: str) -> dict[str, str]:
    """The fields of CONNECT that say who we are; userinfo in the URL wins.

    Raises:
        Misconfigured: a file can't be read, or does not hold what it should.
    """
    if server.user is not None:
        return _user_or_token(server.user, server.password)
    if settings.creds_file:
        return _signed(_read(settings.creds_file, "NATS_CREDS_FILE"), nonce, "NATS_CREDS_FILE")
    if settings.nkey_seed_file:
        return _signed(_read(settings.nkey_seed_file, "NATS_NKEY_SEED_FILE"), nonce, "NATS_NKEY_SEED_FILE")
    if settings.user is not None and settings.password is not None:
        return _user_or_token(settings.user, settings.password.get_secret_value())
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


def _user_or_token(user: str, password: str | None) -> dict[str, str]:
    return {"auth_token": user} if password is None else {"user": user, "pass": password}


def _read(path: str, setting: str) -> Credentials:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{setting} is {path!r}, which can't be read: {error}", field=setting) from error
    return read_credentials(text, origin=setting)


def _signed(credentials: Credentials, nonce: str, setting: str) -> dict[str, str]:
    fields = {"jwt": credentials.jwt} if credentials.jwt else {}
    if not credentials.seed:
        return fields
    # Here, since it loads libsodium, which most processes never need.
    import nkeys  # type: ignore[import-untyped]  # it ships no types

    try:
        pair = nkeys.from_seed(bytearray(credentials.seed.encode()))
        public, signature = pair.public_key.decode(), pair.sign(nonce.encode())
        pair.wipe()
    except (nkeys.NkeysError, ValueError) as error:
        raise Misconfigured(
            f"the file of {setting} holds a seed that is not valid ({type(error).__name__}): replace it", field=setting
        ) from None
    if not credentials.jwt:
        fields["nkey"] = public
    if nonce:
        fields["sig"] = base64.urlsafe_b64encode(signature).rstrip(b"=").decode()
    return fields

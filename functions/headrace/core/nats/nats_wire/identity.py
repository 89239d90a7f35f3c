"""The fields of CONNECT that say who we are. Pure: the caller has read the files."""

from __future__ import annotations

import base64

from headrace.core.errors import Misconfigured
from headrace.core.nats.nats_wire.credentials import Credentials


def user_or_token(user: str, password: str | None) -> dict[str, str]:
    """A user without a password is a token, as in the userinfo of a URL."""
    return {"auth_token": user} if password is None else {"user": user, "pass": password}


def signed(credentials: Credentials, nonce: str, *, origin: str) -> dict[str, str]:
    """A JWT, an nkey, or both, with the server's nonce signed.

    Args:
        origin: the setting that named the file, for the error.

    Raises:
        Misconfigured: the seed is not valid, or the package that signs is not installed.
    """
    fields = {"jwt": credentials.jwt} if credentials.jwt else {}
    if not credentials.seed:
        return fields
    # Here, since it loads libsodium, which most processes never need and a Spark cluster may not have.
    try:
        import nkeys  # type: ignore[import-untyped]  # it ships no types
    except ImportError:
        raise Misconfigured(
            f"{origin} needs a signature, and the package nkeys that makes it is not installed: install nkeys",
            field=origin,
        ) from None

    try:
        pair = nkeys.from_seed(bytearray(credentials.seed.encode()))
        public, signature = pair.public_key.decode(), pair.sign(nonce.encode())
        pair.wipe()
    except (nkeys.NkeysError, ValueError) as error:
        raise Misconfigured(
            f"the file of {origin} holds a seed that is not valid ({type(error).__name__}): replace it", field=origin
        ) from None
    if not credentials.jwt:
        fields["nkey"] = public
    if nonce:
        fields["sig"] = base64.urlsafe_b64encode(signature).rstrip(b"=").decode()
    return fields

"""The key by which the functions of a place know one another, and the operator, from a process's environment."""

from __future__ import annotations

import re

from headrace.core import caller_token
from headrace.core.errors import Misconfigured
from headrace.core.event.delivery_claim import Claims
from headrace.core.installation.function_settings import DeliverySettings, TokenSettings
from headrace.io.process import environment
from headrace.io.web import Token

_KEY = re.compile("[0-9A-Fa-f]{64}")


def claims() -> Claims:
    """The claims under the key that the environment has now; without a key none is made and none is believed.

    Raises:
        Misconfigured: as `key`.
    """
    return Claims(key() or None)


def key() -> bytes:
    """The key that the environment has now; empty: there is none.

    Raises:
        Misconfigured: the key is no key, or the file of the shared token can't be read.
    """
    given = environment.fill(DeliverySettings).delivery_key
    if given is not None:
        return _bytes(given.get_secret_value())
    settings = environment.fill(TokenSettings)
    if not settings.token_file and not (settings.token and settings.token.get_secret_value()):
        return b""
    # Functions that have the token itself, as on a laptop, have no namespace.
    return _bytes(caller_token.delivery_key(Token(settings).load(), ""))


def _bytes(digits: str) -> bytes:
    if _KEY.fullmatch(digits) is None:
        # Without the value: it is a secret.
        raise Misconfigured(
            "HEADRACE_DELIVERY_KEY is not 64 hex digits: give the same to all functions, as `openssl rand -hex 32` "
            "prints it",
            field="HEADRACE_DELIVERY_KEY",
        )
    return bytes.fromhex(digits)

"""The text of a credentials file (`.creds`) or of an nkey seed file.

A credentials file holds a JWT and a seed, each between lines of dashes; a seed file may hold the bare seed.
Signing is the caller's: it needs a package that not every user of this protocol has.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from headrace.core.errors import Misconfigured

_FRAMED = re.compile(r"-{3,}\s*BEGIN ([^-\r\n]*?)\s*-{3,}\s*([^\s-][^\s]*)\s*-{3,}\s*END")
_BARE_SEED = re.compile(r"^\s*(S[A-Z0-9]{20,})\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Our identity. `jwt` is empty for a plain nkey, `seed` for a bearer JWT, which needs no signature."""

    jwt: str = field(repr=False)
    seed: str = field(repr=False)


def read_credentials(text: str, *, origin: str) -> Credentials:
    """Find JWT and seed.

    Args:
        origin: the setting that named the file, for the error.

    Raises:
        Misconfigured: the text holds neither.
    """
    framed = {kind.upper(): value for kind, value in _FRAMED.findall(text)}
    jwt = next((value for kind, value in framed.items() if "JWT" in kind), "")
    seed = next((value for kind, value in framed.items() if "SEED" in kind), "")
    bare = _BARE_SEED.search(text)
    if not seed and not jwt and bare:
        seed = bare[1]
    if not seed and not jwt:
        raise Misconfigured(
            f"the file of {origin} holds neither a JWT nor an nkey seed: check its content", field=origin
        )
    return Credentials(jwt, seed)

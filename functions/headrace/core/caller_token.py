"""The token that a caller shows to one function of a channel, and what that function is told of it.

The shared token stays where the operator and `reconcile` are. Of it, and of the host that is called, a token follows
that is good for that host only; the function gets a digest of that one, in the open: it tells callers apart, and nobody
can call by it. So no Secret has to be where functions run, and who sees a call can repeat it only where it was made.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from urllib.parse import urlsplit

Digests = Callable[[str], str]
"""From the host of a function to what it is told."""


def shown(shared: bytes, host: str) -> str:
    """What is shown as a bearer token to the function at this host, which has no port."""
    return hmac.new(shared, b"call " + host.lower().encode(), hashlib.sha256).hexdigest()


def shown_at(shared: bytes, url: str) -> str:
    """The same for the URL that is called."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        # Nobody is there to be shown anything.
        host = ""
    return shown(shared, host)


def digest(token: bytes) -> str:
    """What can be told in the open of a token that is shown."""
    return hashlib.sha256(token).hexdigest()


def digests(shared: bytes) -> Digests:
    """What each function is told, by its host."""
    return lambda host: digest(shown(shared, host).encode())

"""The token that a caller shows to one function of a channel, and the digest by which that function knows it.

The shared token stays where the operator and `reconcile` are. From it and the host that is called follows a derived
token, which is good for that host only. The function gets a digest of the derived token. The digest need not be kept
secret: the function recognises callers by it, but nobody can call with it. So no Secret has to be where functions run,
and a program that sees a call can repeat it only at the same host.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from urllib.parse import urlsplit

Digests = Callable[[str], str]
"""From the host of a function to the digest that it is given."""
DeliveryKeys = Callable[[str], str]
"""From the namespace that functions run in to the key by which they know one another's deliveries."""


def shown(shared: bytes, host: str) -> str:
    """What is shown as a bearer token to the function at this host, which has no port."""
    return hmac.new(shared, b"call " + host.lower().encode(), hashlib.sha256).hexdigest()


def shown_at(shared: bytes, url: str) -> str:
    """The same for the URL that is called."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        # No function can have such a URL.
        host = ""
    return shown(shared, host)


def digest(token: bytes) -> str:
    """The digest of a derived token, which is no secret."""
    return hashlib.sha256(token).hexdigest()


def digests(shared: bytes) -> Digests:
    """The digest for each function, by its host."""
    return lambda host: digest(shown(shared, host).encode())


def delivery_key(shared: bytes, namespace: str) -> str:
    """The key of claims (`headrace.core.event.delivery_claim`), 64 hex digits.

    Each namespace of functions has its own: it is in the clear in their pods, and opens nothing but message ids there.
    """
    return hmac.new(shared, b"deliveries " + namespace.encode(), hashlib.sha256).hexdigest()


def delivery_keys(shared: bytes) -> DeliveryKeys:
    """The key for each namespace."""
    return lambda namespace: delivery_key(shared, namespace)

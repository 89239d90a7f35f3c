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
"""The digest that a function is given, by the function's host."""
DeliveryKeys = Callable[[str], str]
"""The key by which the functions of a namespace know one another's deliveries, by that namespace."""


def bearer_for_host(shared: bytes, host: str) -> str:
    """The bearer token for the function at this host, which has no port."""
    return hmac.new(shared, b"call " + host.lower().encode(), hashlib.sha256).hexdigest()


def bearer_for(shared: bytes, url: str) -> str:
    """The bearer token for the function at this URL."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        # No function can have such a URL.
        host = ""
    return bearer_for_host(shared, host)


def digest(token: bytes) -> str:
    """The digest of a derived token; a digest is no secret."""
    return hashlib.sha256(token).hexdigest()


def digests(shared: bytes) -> Digests:
    return lambda host: digest(bearer_for_host(shared, host).encode())


def delivery_key(shared: bytes, namespace: str) -> str:
    """The key of claims (`headrace.core.event.delivery_claim`), 64 hex digits.

    Each namespace of functions has its own key: their pods hold it in the clear, and it opens only message ids there.
    """
    return hmac.new(shared, b"deliveries " + namespace.encode(), hashlib.sha256).hexdigest()


def delivery_keys(shared: bytes) -> DeliveryKeys:
    return lambda namespace: delivery_key(shared, namespace)

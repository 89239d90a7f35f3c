"""Which delivery a POST of `forward` is, in a header that a channel believes, and how many channels an event has seen.

The server's duplicate window knows a message by its id. An event's source and id make the id of a producer's message,
so that its repeats are one message. Two deliveries of one event are two messages: `forward` says in a *claim* for which
consumer, event, stage and destination it POSTs, and `receive` takes the claim into the id. The claim is proven by a key
that only functions have; a claim without proof is passed over, or strangers could choose ids.

Pure. Written by `headrace.forward`, read by `headrace.receive` (ADR 044).
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from urllib.parse import quote

CLAIM = b"knative-headrace-delivery"
"""`<stream>/<consumer>/<stage>/<digest of the destination>/<sequence>/<stored, ns since the epoch>.<proof>`

Knative's own parts pass on headers whose name begins with `knative-`, so that a reply which goes by a Broker's ingress
comes to the Broker's channel with its claim.
"""

HOPS = b"headrace-hops"
"""How many channels of ours have handed an event on. The number is stored with the event and needs no proof: a sender
that makes it up harms its own event. A Broker's ingress drops it, and has a count of its own."""

# Nothing else sees a loop over several channels: each delivery in it is in order. Knative's brokers allow as many by
# default (`knativebrokerttl`), so no flow that works there is stopped here; a Sequence or Parallel has a hop for each
# step, a dozen where it is long.
MOST_HOPS = 255

DUPLICATE = b"headrace-duplicate"
"""In an answer of `receive`: the event was stored before, and is not stored again. The value tells how it was known."""
OF_DELIVERY = b"delivery"
"""By its claim: it is this very delivery, and an earlier try of it has been stored."""
OF_EVENT = b"event"
"""By source and id: it may be a repeat, another delivery, or another event with the same source and id."""
UNSURE = b"unsure"
"""By source and id; a try of `receive` itself may have stored it a moment ago."""

_LONGEST = 1024
_PERSON = b"headrace claim"
_DIGITS = frozenset("0123456789")


class Claims:
    """Writes claims and reads them.

    Args:
        key: 16 to 64 bytes; None: none are written, and none believed.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._keyed = None if key is None else blake2b(key=key, digest_size=16, person=_PERSON)

    def of(self, begin: bytes, sequence: int, stored: int) -> bytes:
        """The value of the header for one event; empty without a key.

        Args:
            begin: from `beginning`.
            stored: when the stream stored it, nanoseconds since the epoch: a stream that is made anew counts anew.
        """
        if self._keyed is None:
            return b""
        claim = b"%b%d/%d" % (begin, sequence, stored)
        return b"%b.%b" % (claim, _proof(self._keyed, claim))

    def proven(self, value: bytes | None) -> bytes:
        """The claim in a header's value; empty for none, or for one that is not proven."""
        if value is None or self._keyed is None or len(value) > _LONGEST:
            return b""
        claim, _, proof = value.rpartition(b".")
        return claim if hmac.compare_digest(proof, _proof(self._keyed, claim)) else b""


@lru_cache(1024)
def beginning(stream: str, consumer: str, stage: str, uri: str) -> bytes:
    """The common beginning of the claims of one consumer, stage and destination.

    A digest stands for the destination: addresses may hold secrets.
    """
    names = "/".join(quote(name, safe="", errors="surrogatepass") for name in (stream, consumer))
    digest = blake2b(uri.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{names}/{stage}/{digest}/".encode()


def hops(headers: Mapping[str, str]) -> int:
    """The number of hops in the headers of a stored message, names in lower case; 0 for other text."""
    return count(headers.get(_HOPS, ""))


def count(text: str) -> int:
    """The number in the header's value; 0 for any other text."""
    return int(text) if 0 < len(text) <= 3 and _DIGITS.issuperset(text) else 0


_HOPS = HOPS.decode()


def _proof(keyed: blake2b, claim: bytes) -> bytes:
    # BLAKE2b with a key is a MAC by itself (RFC 7693), at a quarter of the cost of HMAC: one is made for each POST.
    digest = keyed.copy()
    digest.update(claim)
    return digest.hexdigest().encode()

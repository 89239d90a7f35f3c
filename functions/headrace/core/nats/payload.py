"""How much room a server's max_payload leaves for events, and what to say where it leaves none.

Pure. Called by the programs that take events, by `reconcile` for a condition, and by `kn jetstream doctor`.
"""

from __future__ import annotations

from headrace.core.nats.jetstream import HEADROOM_BYTES

# A smaller payload holds no event with the headers around it.
LEAST_EVENT = 1024
CLOUDEVENTS_BYTES = 64 * 1024
"""Events of this size should pass everywhere (CloudEvents 1.0.2, "Size Limits")."""

DO = "raise max_payload in the configuration of the NATS servers; without it there it is 1 MB"


def problem(max_payload: int) -> str:
    """Why no event fits; empty where some do."""
    if max_payload >= HEADROOM_BYTES + LEAST_EVENT:
        return ""
    kept = f"of which {HEADROOM_BYTES} are kept free for what a retry or a parked event adds"
    return f"the NATS server's max_payload is {max_payload} bytes, {kept}: no event fits"


def narrow(max_payload: int) -> str:
    """Why events that should pass everywhere do not all fit; empty where they do."""
    most = max_payload - HEADROOM_BYTES
    if problem(max_payload) or most >= CLOUDEVENTS_BYTES:
        return ""
    return (
        f"the NATS server's max_payload is {max_payload} bytes: events of more than {most}, headers included, are "
        f"refused (413), and CloudEvents asks that {CLOUDEVENTS_BYTES} pass everywhere"
    )

"""The rows of the bench: the requests of each, their address, and the floor that it is held against."""

from __future__ import annotations

from bench import egress, ingress, secured
from bench.row import Row
from bench.start import started

CHANNELS = 100


def rows() -> list[Row]:
    """In the order in which every round runs them."""
    return [
        *ingress.rows(),
        *secured.rows(),
        *egress.rows(),
        Row(
            "start-100-channels",
            "a fresh `receive`; p50 and p99 are from exec to the first 202 of a channel, over 100 channels",
            lambda stage, _: started(stage, CHANNELS),
        ),
    ]

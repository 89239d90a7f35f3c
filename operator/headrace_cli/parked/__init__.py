"""Parked events: chosen, listed, replayed, discarded, one after the other.

What happens to each is `headrace.io.jetstream.aside`'s.
"""

"""Parked events: chosen, listed, replayed, discarded, one after the other. What each is, is `headrace.io.aside`'s."""

"""Parked events: they are selected, listed, replayed and discarded, one after the other.

This room knows which events are meant and in which order they are done. What happens to each is
`headrace.io.jetstream.aside`'s. Only the command `deadletter` imports it.
"""

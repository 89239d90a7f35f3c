"""Stub."""


def event_batch(messages, stream, schema, parse_mode):
    raise NotImplementedError

"""What Headrace knows: pure functions and values, without I/O, clock or randomness.

Six rooms stand one above the other, and each imports only from rooms below it. The modules beside them are the ground,
which every room may import.

    channel        what becomes of a channel: wanted streams, consumers and objects, and its status
    installation   what an administrator sets
    manifest       a channel as its author wrote it
    delivery       one delivery, and the lease that makes it
    event          a CloudEvent and its codecs
    nats           the wire, and JetStream's words
    (ground)       errors, quoting, names, durations, HTTP and JSON as values, metrics, conditions

Everybody may import core, and core imports nobody: a `layers` contract in pyproject.toml holds it.
"""

"""A connection to NATS: the server's address, our identity, and publish, request, subscribe.

Everybody uses `client`; `engine` is behind it. This room speaks core NATS only: `headrace.io.jetstream` speaks
JetStream on top, and `headrace.core.nats.nats_wire` knows the bytes.
"""

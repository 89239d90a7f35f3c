"""A connection to NATS: where the server is, who we are to it, and publish, request, subscribe.

`client` is what everybody uses, `engine` what is behind it. Core NATS only: JetStream is spoken on top, by
`headrace.io.jetstream`. The bytes are understood by `headrace.core.nats.nats_wire`.
"""

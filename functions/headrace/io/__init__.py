"""The effects of Headrace on the world: NATS, HTTP, environment, log. This room translates and never decides.

    process      one process and its files: environment, mounted files, TLS contexts, log
    nats         a connection to NATS: publish, request, subscribe
    jetstream    JetStream on top of it: the data path, administration, the aside stream
    http         the HTTP client of `forward`

`web` is the ASGI shell of every function, `tracing` makes its spans. The stories (`receive`, `forward`, `reconcile`) do
not import this room: the host hands them what they need. The operator and the CLI import it.
"""

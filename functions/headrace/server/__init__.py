"""Our HTTP server: uvicorn's protocol with the bounds that a hostile network asks for, and `/metrics`.

`protocol` is one connection, and `states` the table of its states. `front` is the short way's port: it takes whole
messages before the parser sees them. `heads` checks heads, `patience` times all waits of a connection, `scraping`
serves metrics on a port of their own. This room knows HTTP. It does not know events, channels or NATS.
`headrace.host` starts it.
"""

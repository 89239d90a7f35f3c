"""Our HTTP server: uvicorn's protocol with the bounds that a hostile network asks for, and `/metrics`.

`protocol` is one connection, and `states` the table of what it may be doing. `front` is what takes whole messages
before the parser sees them, `heads` says what a head must say, `patience` times all waits of a connection.
`scraping` serves metrics on a port of their own. This room knows HTTP. It does not know events, channels or NATS.
`headrace.host` starts it.
"""

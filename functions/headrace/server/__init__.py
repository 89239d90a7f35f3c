"""Our HTTP server: uvicorn's protocol with the bounds that a hostile network asks for, and `/metrics`.

`connection` is one connection, `protocol` reads its messages, and `states` is the table of its states. `crowd` has all
connections of the process, and bounds them. `front` is the short way's port: it takes whole messages before the parser
sees them. `tls` stands between a socket and all of that where requests come encrypted. `heads` checks heads, `flow`
stops and resumes reading, `patience` times all waits of a connection, and `scraping` serves metrics on a port of their
own. This room knows HTTP and TLS. It does not know events, channels or NATS.
`headrace.host` starts it.
"""

"""Our HTTP server: uvicorn's protocol with the bounds that a hostile network asks for, its workers, and `/metrics`.

`protocol` bounds what uvicorn leaves open, `direct` hands whole requests to a handler without ASGI, `workers` keeps one
process for each CPU, `pulse` judges whether one still lives, `scraping` serves metrics on a port of their own. This
room knows HTTP and processes. It does not know events, channels or NATS. `headrace.host` starts it.
"""

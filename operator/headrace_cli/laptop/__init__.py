"""`headrace up`: the whole of Headrace on a laptop, with manifest files in place of the API server.

`up` has the order of things: the store, a nats-server of one's own, the functions as processes, and the operator's work
on channels, in a world of files. This room knows processes, ports and files. The commands start it; no verb imports it.
"""

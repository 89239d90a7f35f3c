"""The way to everything: the place where NATS is, the running `headrace up`, a session, and a stream read through it.

This room knows addresses, files of announcements, and connections. It does not know which channels there are. Every
room of verbs imports it, and `headrace up` announces itself with it; it imports nothing of the command line but
`view`.
"""

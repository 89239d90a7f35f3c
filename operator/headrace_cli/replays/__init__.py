"""Replays: events of a stream are brought again, to a Subscription, a channel or an address.

`position` keeps how far a replay is, `run` brings one event after the other, `message` makes the message that the
server does not take for a duplicate. This room reads a stream and never moves anybody's position. Only the command
`replay` imports it.
"""

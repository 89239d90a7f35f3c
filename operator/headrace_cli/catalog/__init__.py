"""The catalog of channels and Subscriptions: NATS itself holds it, in the metadata of streams and consumers.

This room finds, lists, describes, makes, moves and deletes them. It knows marks, names and positions, and no event. The
rooms of the other verbs and the commands import it.
"""

"""NATS as Headrace speaks of it: the client protocol, what JetStream answers, whose a stream is, what can be done.

The rooms above it say in these values what they found and what they want; `headrace.io` turns them into requests. This
room knows the wire and the server's words. It does not know CloudEvents, deliveries or manifests. Spark's source uses
it, too, so it imports nothing that is not in the standard library.
"""

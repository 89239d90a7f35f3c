"""NATS as Headrace speaks of it: the client protocol, JetStream's answers, the owner of a stream, the possible actions.

The rooms above it use these values to say what they found and what they want; `headrace.io` turns them into requests.
This room knows the wire and the server's words. It does not know CloudEvents, deliveries or manifests. Spark's source
uses it, too, so it imports nothing that is not in the standard library.
"""

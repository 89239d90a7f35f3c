"""A channel as its author wrote it, and its status as the API server keeps it: shapes, bounds, and words for mistakes.

The CRD is generated from these models, so an impossible manifest fails at `kubectl apply`. `manifest` is the whole, the
`…_spec` modules are its parts, built of `part` and `field_types`. This room does not know what a field means
to NATS or to a pod: that is `headrace.core.channel`'s.
"""

"""Headrace: a Knative Eventing channel on NATS JetStream, as scale-to-zero functions."""

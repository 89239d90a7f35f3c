"""Spark reads and writes NATS JetStream: the data source `jetstream`."""

"""Which channels and Subscriptions there are, as NATS itself tells it: by the metadata of streams and consumers."""

"""The objects of a cluster: channels and Subscriptions, by way of its API server."""

"""The objects of a cluster: channels and Subscriptions, by way of its API server.

`objects` is the port, `kube` stands behind it and brings Kubernetes' own client, so only a command that asks a cluster
imports `kube`. This room knows objects and their conditions, and nothing of NATS.
"""

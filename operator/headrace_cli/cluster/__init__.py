"""The objects of a cluster: channels and Subscriptions, by way of its API server.

`kube` asks it, with what `credentials` or the kubeconfig gives, and only a command that asks a cluster imports it. This
room knows objects and their conditions, and nothing of NATS.
"""

"""A channel whose credentials lead to another NATS account than the installation's, and what people are told of it.

`lockout` is about a channel that NATS lets nobody into, `leftovers` about the streams that stay behind when the
credentials change. Both are pure. How the account is found and asked stands in the modules `own_account` of
`core.nats`, `io.jetstream`, `host` and `reconcile`.
"""

"""What becomes of a channel: from what was observed to what is desired, and to the status that tells of it.

`hook` is the contract of `reconcile`, and `desired` is the whole decision. `plan` and `binding` say what to change in
NATS, `children` says which objects to have in Kubernetes, and `status` says what people are told. `related` and `truth`
read the objects beside the channel. Everything is pure: `headrace.reconcile` carries it out. Nothing in core imports
this room.
"""

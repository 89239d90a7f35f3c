"""The way back: channels are given to the Go channel's controller, while events flow.

`plan` says which may go and in which order, `hand_over` has the steps of one channel, `peer_consumer` knows the
consumer that the Go channel would have made. This room changes streams and consumers; only the command `hand-back`
imports it.
"""

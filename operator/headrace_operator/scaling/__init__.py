"""The scaler: it opens leases at `forward` in proportion to what waits, and none where nothing does.

`lag` decides how many leases a consumer deserves, and is pure; `served` and `sweep` read the numbers from JetStream,
`lease_client` opens a lease, `scaler` says when. `waking` alone knows channels of a cluster. Everything else works from
a list of streams, so `headrace up` has the same scaler.
"""

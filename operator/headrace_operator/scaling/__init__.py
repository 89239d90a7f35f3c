"""The scaler: it opens leases at `forward` in proportion to what waits, and none where nothing does.

`lag` decides how many leases a consumer deserves, and is pure. `served_streams` and `sweep` read the numbers from
JetStream, `lease_client` opens a lease, and `scaler` says when. `channel_scaler` alone knows channels; everything else
works from a list of streams.
"""

"""The small always-on process: it watches, applies, and wakes `forward` when there is work.

    channels   passes over channels: what is observed goes to the hook, what it answers is applied
    scaling    which consumers have work, and how many leases each of them gets
    kube       the Kubernetes API: objects as plain JSON, requests, watches, the Lease of a leader

`program` starts and stops all of it, `probes` and `metrics` show it. A room imports only rooms that stand below it;
`scaling` works without Kubernetes. The operator decides nothing about channels: the hook does, which it reaches over
HTTP. It imports `headrace.core` and `headrace.io`, never a story or the host.
"""

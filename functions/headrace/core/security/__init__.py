"""Who may send to a channel, and how securely: Knative's flags, and the one document that tells functions of them.

`flags` reads the flags of `config-features`; `document` is what the operator writes and every function mounts. All of
it is pure and knows no Kubernetes client: functions enforce it while the API server is away.
"""

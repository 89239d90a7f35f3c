"""One process and its files: environment, mounted ConfigMaps and Secrets, TLS contexts, log, usage.

No module here opens a connection; the rest of `headrace.io` stands on this room.
"""

"""What this process is told, and what it tells: environment, mounted ConfigMaps and Secrets, TLS contexts, log, usage.

Everything here is about one process and its files. Nothing here opens a connection, and the rest of `headrace.io`
stands on it.
"""

"""The `headrace` command, also reached as `kn jetstream`; on top of all, imported by none."""

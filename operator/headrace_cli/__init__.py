"""The `headrace` command, also reached as `kn jetstream`; on top of all, imported by none.

Words, options and all that is printed are in `commands`. The verbs are in the rooms below it: they take typed
arguments, return values, and know nothing of a terminal. `laptop` is `headrace up`. A contract in pyproject.toml has
the order.
"""

"""What an administrator sets: variables, ConfigMaps, Secrets, and the defaults of channels.

The `…_settings` modules hold every variable of every program; `config_maps`, `secret_files` and `channel_defaults` read
mounted texts. Text comes in and values go out: files and environment are `headrace.io`'s. This room knows a manifest,
since it fills in the fields that its author left out. It does not know what was observed in a cluster.
"""

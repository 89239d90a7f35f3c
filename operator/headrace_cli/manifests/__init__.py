"""Manifests as files: YAML as documents that know where they come from, and the shapes of what they may hold.

There is no API server to refuse a typo, so this room does. It knows files, fields and words for mistakes. It does not
know what becomes of a channel.
"""

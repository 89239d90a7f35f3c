"""Passes over channels: what is observed goes to the hook, and what the hook answers is done.

`channel_work` turns changes into work, `work_queue` orders it, and `one_channel` is one pass. A pass sees and writes
through a `world`: `cluster_world` has the API server behind it, and `headrace up` brings one of its own, of files. In a
cluster `children` applies the wanted objects, `channel_object` writes the channel itself, `related_objects` shows the
hook what it asked to see, and `leadership` adds what only the one operator that leads may do. The hook says what should
be there (`hook_client`); this room compares, writes what differs, and is silent while nothing changes.
"""

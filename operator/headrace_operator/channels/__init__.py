"""Passes over channels: what is observed goes to the hook, and what the hook answers is done.

`leading` turns changes into work, `work_queue` orders it, and `one_channel` is one pass. `children` applies the wanted
objects, `channel_object` writes the channel itself, `related` shows the hook what it asked to see. What should be there
is the hook's to say (`hook_client`); this room compares, writes what differs, and is silent while nothing changes.
"""

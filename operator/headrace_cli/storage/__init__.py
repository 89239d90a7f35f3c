"""What a channel's stream holds: events are deleted, and whole streams saved to a directory and brought back.

`removal` deletes, `backup` keeps a directory in order, `snapshot` speaks the server's own flow of chunks. This room
knows streams and files, and never asks whether it is meant: the commands do.
"""

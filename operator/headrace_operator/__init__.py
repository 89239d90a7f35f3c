"""The small always-on process: it watches, applies, and wakes `forward` when there is work."""

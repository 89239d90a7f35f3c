"""Channels are given back to the Go channel's controller: `hand-back`."""

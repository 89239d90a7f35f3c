"""The CPU of the hot paths, measured beside floors that nobody can get below, and beside the Go channel."""

"""What the hot paths cost, measured beside what can't be saved (floors) and beside the Go channel."""

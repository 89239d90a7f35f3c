"""What a channel's stream holds: taken out of it, saved from it, brought back into it."""

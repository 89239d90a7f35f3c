"""What Headrace knows: pure functions and values, without I/O, clock or randomness."""

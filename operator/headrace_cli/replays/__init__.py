"""Events of a stream, brought again to a subscriber, a channel or an address."""

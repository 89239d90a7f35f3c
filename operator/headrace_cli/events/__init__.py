"""Events on their way: composed and sent, watched, filtered, and sent by the thousand to measure a channel.

This room knows what an event is and how a channel takes it. It does not know what is parked or replayed: the rooms that
do so import its filters and its pace. The commands `send`, `tail`, `peek` and `bench` stand on it.
"""

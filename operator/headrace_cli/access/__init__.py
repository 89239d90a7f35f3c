"""Where things are: the NATS server, the address that takes events, the cluster; and a session with them."""

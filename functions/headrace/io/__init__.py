"""What Headrace does to the world: NATS, HTTP, environment, log. Translates, never decides."""

"""The HTTP client of `forward`: pooled HTTP/1.1 on the bare protocol, for one kind of request, the POST of an event.

Reading order: `client` (the story of one POST) → `connection` (one exchange after the other) → `answer` (bytes to an
answer, without I/O) → `pool` (which connections are kept) → `address`, `request` (what is sent, without I/O) →
`dial`, `resolver`, `socket_address`, `tls` (how a connection comes about).
"""

from headrace.io.http.client import HttpClient

__all__ = ["HttpClient"]

"""The HTTP client of `forward`: pooled HTTP/1.1 on the bare protocol, for one kind of request, the POST of an event.

Reading order: `client` (the story of one POST) → `connection` (one exchange after the other) → `answer` (bytes to
answers, without I/O) → `pool` (the connections that are kept) → `address`, `request` (the bytes to send, without I/O)
→ `dial`, `resolver`, `socket_address`, `tls` (the opening of a connection).
"""

from headrace.io.http.client import HttpClient

__all__ = ["HttpClient"]

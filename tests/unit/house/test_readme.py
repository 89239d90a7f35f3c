"""The README's lines do what it says."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from headrace.core.event.event import Event
from headrace.core.event.http_codec import HttpMessage, from_http
from headrace.core.nats.jetstream import HEADROOM_BYTES

README = (Path(__file__).parents[3] / "README.md").read_text()
# What a nats-server takes when its configuration says nothing.
MAX_PAYLOAD = 1024 * 1024


def test_the_snippet_sends_an_event() -> None:
    received: list[tuple[str, Event]] = []

    class Receive(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            headers = tuple((name.lower().encode(), value.encode()) for name, value in self.headers.items())
            body = self.rfile.read(int(self.headers["content-length"]))
            received.append((self.path, from_http(HttpMessage(headers, body))))
            self.send_response(202)
            self.end_headers()

    # Spark's own suite runs the other.
    snippet, _ = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    with HTTPServer(("127.0.0.1", 0), Receive) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        code = snippet.replace("127.0.0.1:8080", f"127.0.0.1:{server.server_port}")
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
        server.shutdown()

    assert (ran.stdout, ran.stderr) == ("202\n", "")
    [(path, event)] = received
    assert path == "/shop/orders"
    assert (event.source, event.type, event.data) == ("/me", "shop.order", b'{"items": 3}')


def test_the_largest_event_is_as_the_readme_says() -> None:
    assert f"{MAX_PAYLOAD - HEADROOM_BYTES:,} bytes by default" in README

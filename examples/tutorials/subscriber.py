"""The subscriber of the tutorials: prints every event that it gets, and answers as it is told. Standard library only.

python examples/tutorials/subscriber.py                          takes every event
python examples/tutorials/subscriber.py --answer 503 --times 2   refuses each event twice, then takes it
python examples/tutorials/subscriber.py --answer 400             takes none
"""

from __future__ import annotations

import argparse
import contextlib
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--port", type=int, default=9090)
parser.add_argument("--answer", type=int, default=200, help="the status that refuses an event")
parser.add_argument("--times", type=int, default=1_000_000, help="how often each event is refused")
options = parser.parse_args()
attempts: Counter[str] = Counter()


class Subscriber(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["content-length"]))
        event = self.headers["ce-id"]
        attempts[event] += 1
        status = options.answer if attempts[event] <= options.times else 200
        print(f"{event} {self.headers['ce-type']} {data.decode()} attempt {attempts[event]}: {status}", flush=True)
        answer = b"" if status == 200 else b"I have a bug: what is that?"
        self.send_response(status)
        if answer:
            self.send_header("content-type", "text/plain")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *arguments: object) -> None:
        """Nothing: the line above is enough."""


with contextlib.suppress(KeyboardInterrupt), ThreadingHTTPServer(("127.0.0.1", options.port), Subscriber) as server:
    print(f"listening on {options.port}", flush=True)
    server.serve_forever()

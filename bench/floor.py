"""The floor of `receive`: an ASGI callable that reads the body and answers 202, under the very same server.

    python -m bench.floor --port 8081

What `receive` costs above this is its own: parsing, encoding, storing.
"""

from __future__ import annotations

import argparse

import uvicorn

from headrace.host.serving import config
from headrace.io.web import Receive, Scope, Send


async def floor(_scope: Scope, receive: Receive, send: Send) -> None:
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.floor", description="Answer 202 to everything.")
    parser.add_argument("--port", type=int, required=True)
    settings = config(floor)
    settings.port = parser.parse_args().port
    uvicorn.Server(settings).run()


if __name__ == "__main__":
    main()

"""The floor of `receive`: the smallest ASGI callable that reads the body and answers 202, under uvicorn as it is.

    python -m bench.floor --port 8081

What `receive` costs above this is its own: parsing, encoding, storing. The floor has uvicorn's own protocol and none of
our limits; like our server it writes no date, and no log line per request.
"""

from __future__ import annotations

import argparse

import uvicorn

from headrace.io.web import Receive, Scope, Send


async def floor(_scope: Scope, receive: Receive, send: Send) -> None:
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.floor", description="Answer 202 to everything.")
    parser.add_argument("--port", type=int, required=True)
    settings = uvicorn.Config(
        floor,
        port=parser.parse_args().port,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=95,
        log_level="warning",
    )
    uvicorn.Server(settings).run()


if __name__ == "__main__":
    main()

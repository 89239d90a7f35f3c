"""Plays one session against a nats-server and keeps every byte that it said: see README.md.

uv run python tests/unit/core/nats/recorded/record.py BINARY FILE
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from headrace.core.nats import nats_wire

ROOM = nats_wire.DEFAULT_MAX_PAYLOAD
HEADERS = {"ce-id": "1", "Nats-Msg-Id": "one", "ce-city": "Zürich", "empty": ""}
STREAM = {"name": "RECORDED", "subjects": ["recorded.>"], "storage": "memory"}
CONSUMER = {"stream_name": "RECORDED", "config": {"durable_name": "reader", "ack_policy": "explicit"}}
NEXT = "$JS.API.CONSUMER.MSG.NEXT.RECORDED.reader"


def say(subject: str, data: bytes, reply: str = "", headers: dict[str, str] | None = None) -> bytes:
    return nats_wire.publish(subject, data, reply, headers, ROOM)


def ask(subject: str, body: object, serial: int) -> bytes:
    return say(subject, json.dumps(body).encode(), f"inbox.{serial}")


SESSION = [
    nats_wire.connect({"name": "recorder"}) + nats_wire.PING,
    nats_wire.subscribe("talk.>", 1) + nats_wire.subscribe("inbox.*", 22),
    say("talk.plain", b"hello"),
    say("talk.empty", b""),
    say("talk.reply", b"answer me", "inbox.nobody"),
    say("talk.lines", b"a line\r\nMSG talk.fake 1 4\r\nfake\r\n"),
    say("talk.headers", b"with headers", headers=HEADERS),
    say("talk.headers.reply", b"", "inbox.nobody", HEADERS),
    say("talk.größe", "größer".encode()),
    say("nobody.listens", b"?", "inbox.1"),
    ask("$JS.API.STREAM.CREATE.RECORDED", STREAM, 2),
    ask("$JS.API.CONSUMER.DURABLE.CREATE.RECORDED.reader", CONSUMER, 3),
    say("recorded.one", b"first", "inbox.4", HEADERS),
    say("recorded.one", b"first", "inbox.5", HEADERS),
    say("recorded.two", b"x" * 70_000, "inbox.6"),
    ask(NEXT, {"batch": 3, "expires": 300_000_000}, 7),
    ask(NEXT, {"batch": 1, "no_wait": True}, 8),
    nats_wire.PING,
    b"GARBAGE\r\n",
]


def record(binary: str) -> bytes:
    """All that the server says; half a second of silence ends each step."""
    with tempfile.TemporaryDirectory() as directory:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        config = Path(directory, "server.conf")
        config.write_text(
            f'listen: "127.0.0.1:{port}"\nserver_name: "recorded"\njetstream {{ store_dir: "{directory}" }}\n'
        )
        server = subprocess.Popen([binary, "-c", str(config)], stderr=subprocess.DEVNULL)
        try:
            time.sleep(1)
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.settimeout(0.5)
                return _heard(client) + b"".join(_played(client, step) for step in SESSION)
        finally:
            server.terminate()
            server.wait()


def _played(client: socket.socket, step: bytes) -> bytes:
    client.sendall(step)
    return _heard(client)


def _heard(client: socket.socket) -> bytes:
    heard = b""
    try:
        while data := client.recv(65536):
            heard += data
    except TimeoutError:
        pass
    return heard


if __name__ == "__main__":
    Path(sys.argv[2]).write_bytes(record(sys.argv[1]))

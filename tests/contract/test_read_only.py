"""The functions write no file, so that the image can have a read-only root file system, wherever HOME and TMPDIR are.

Every opening for writing, and every other change of a file system, is refused as a read-only one refuses it, and noted.
An audit hook does that, since our tests may run as root, whom no mode of a directory stops.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.channels import channel
from tests.support.functions import TOKEN, Function
from tests.support.nats_server import NatsServer, free_port
from tests.support.scraping import scrape
from tests.support.sending import BINARY, send
from tests.support.streams import Channel
from tests.support.waiting import until

pytest_plugins = ["tests.support.served"]

# Devices and the kernel's own files are no part of an image. What is not Python's (nats, uvloop) opens no files.
HOOK = """
import errno, os, runpy, sys
CHANGES = {"os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.link", "os.truncate", "os.chmod",
           "tempfile.mkstemp", "tempfile.mkdtemp", "shutil.rmtree"}
def hook(event, args):
    path, writes = (args[0] if args else ""), event in CHANGES
    if event == "open":
        mode, flags = args[1] or "", args[2] or 0
        writes = any(letter in mode for letter in "wax+") or flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if writes and isinstance(path, (str, bytes)) and not os.fsdecode(path).startswith(("/dev/", "/proc/")):
        os.write(2, f"WROTE {event} {path!r}\\n".encode())
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
sys.addaudithook(hook)
sys.argv = ["headrace.host"]
try:
    open(os.environ["HOME"] + "/probe", "w")
except OSError:
    pass
runpy.run_module("headrace.host", run_name="__main__")
"""


class ReadOnly(Function):
    """A function that may change no file; it tells of itself on `told`."""

    program = ("-c", HOOK)

    def __init__(self, target: str, server: NatsServer, directory: Path) -> None:
        self.told = free_port()
        nowhere = str(directory / "not-there")
        # As in the image: there is byte code already.
        settings = {"HOME": nowhere, "TMPDIR": nowhere, "PYTHONDONTWRITEBYTECODE": "1", "RECEIVE_WORKERS": "2"}
        super().__init__(target, server.url, directory, METRICS_PORT=str(self.told), **settings)


@pytest.fixture(params=["receive", "forward", "reconcile"])
def function(request: pytest.FixtureRequest, shared_server: NatsServer, tmp_path: Path) -> Iterator[ReadOnly]:
    with ReadOnly(request.param, shared_server, tmp_path) as started:
        yield started


async def test_a_function_serves_and_writes_nothing(function: ReadOnly, orders: Channel) -> None:
    shown = {"content-type": "application/json", "authorization": f"Bearer {TOKEN}"}
    match function.target:
        case "receive":
            reply = await send(function.url + orders.path, b"{}", BINARY)
            assert reply.status == 202
        case "reconcile":
            reply = await send(f"{function.url}/customize", json.dumps({"parent": channel()}).encode(), shown)
            assert reply.status == 200, reply
        case _:
            reply = await send(function.url, b'{"stream": "NOBODYS", "consumer": "none"}', shown)
            assert reply.status != 401

    async def tells() -> bool:
        return (await scrape(function.told)).has("headrace_requests_total")

    await until("it tells of what it was asked", tells)
    function.terminate()
    assert function.wait() == 0

    written = [line for line in function.log.splitlines() if line.startswith("WROTE")]

    # The hook's own probe shows that it would have been seen.
    assert len(written) == 1, written
    assert "probe" in written[0]

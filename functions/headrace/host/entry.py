"""The code of the two hosts' entry files: one application per process, and kn func's way to name addresses.

`functions/main.py` (functions-framework) and `functions/function.py` (kn func's scaffold) call it. They hold no state
and no code of their own: their hosts may load them twice.
"""

from __future__ import annotations

import socket
import sys
from functools import cache

from headrace.core.errors import Misconfigured
from headrace.core.quoting import plain, quoted
from headrace.host.app import App, application
from headrace.host.serving import Address, serve
from headrace.io.process import environment, log

# func-python's own default; kn func sets the variable in every image.
DEFAULT_LISTEN_ADDRESS = "[::]:8080"


@cache
def shared(target: str) -> App:
    """The one application of this target in this process: functions-framework asks for it at every request."""
    log.configure(environment.variable("LOG_LEVEL", "info"), plain=environment.variable("LOG_FORMAT") == "plain")
    return application(target)


def serve_scaffold() -> int:
    """Serve FUNCTION_TARGET on LISTEN_ADDRESS until SIGTERM; exit status 2: the deployer can cure the fault."""
    try:
        text = environment.variable("LISTEN_ADDRESS", DEFAULT_LISTEN_ADDRESS)
        serve(addresses=addresses(text, ipv6=socket.has_dualstack_ipv6()))
    except Misconfigured as error:
        sys.stderr.write(f"headrace: {plain(str(error))}\n")
        return 2
    return 0


def addresses(text: str, *, ipv6: bool) -> list[Address]:
    """Read a comma-separated list, as in `[::]:8080,0.0.0.0:8080`.

    `[::]` alone means every address, those of IPv4 too, as in func-python.

    Args:
        ipv6: does this machine have IPv6? If not, such addresses are left out.

    Raises:
        Misconfigured: an entry is no host and port, or no address can be used here.
    """
    found = [_address(entry.strip()) for entry in text.split(",")]
    everywhere = [port for host, port in found if host == "::"]
    found += [("0.0.0.0", port) for port in everywhere if ("0.0.0.0", port) not in found]
    usable = [(host, port) for host, port in found if ipv6 or ":" not in host]
    if not usable:
        raise Misconfigured(
            f"LISTEN_ADDRESS is {quoted(text)}, but there is no IPv6 here: add an IPv4 address, as in 0.0.0.0:8080",
            field="LISTEN_ADDRESS",
        )
    return usable


def _address(entry: str) -> Address:
    host, _, port = entry.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    bracketed = bare != host
    if not port.isdecimal() or int(port) > 65535 or not bare or (":" in bare) != bracketed:
        raise Misconfigured(
            f"LISTEN_ADDRESS holds {quoted(entry)}: give host:port, as in 0.0.0.0:8080 or [::]:8080",
            field="LISTEN_ADDRESS",
        )
    return bare, int(port)

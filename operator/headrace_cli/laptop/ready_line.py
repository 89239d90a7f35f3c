"""What `headrace up` says on standard output, for people and for scripts that wait for it.

`ready …` comes once, when every channel is ready; before that perhaps once `partly ready …`, which names those that are
not. Knows channels by what reconcile said of them; knows no process. Called by `headrace_cli.laptop.up`.
"""

from __future__ import annotations

from contextlib import suppress

from headrace.core import names
from headrace.io.process import log
from headrace_cli.laptop.channels import Channels

_log = log.get("up")


async def say(channels: Channels, base: str) -> None:
    """Print what is ready now; when that is not all, once more when it is.

    Args:
        base: URL of `receive`.
    """
    if channels.late:
        for channel in channels:
            if not channel.ready:
                _log.warning("channel is not ready", channel=channel.name, why=channel.complaint)
        _print("partly ready", channels, base)
        await channels.all_ready()
    _print("ready", channels, base)


def _print(words: str, channels: Channels, base: str) -> None:
    urls = [base + names.path(*channel.key) for channel in channels if channel.ready]
    late = channels.late
    # Its reader may have left: what is served goes on.
    with suppress(OSError):
        print(words, base, *urls, *(["not ready:", ", ".join(late)] if late else []), flush=True)

"""The place where the verbs find their NATS: an option names it, or the environment, or the `headrace up` that runs.

This module decides, and connects to nothing. `headrace_cli.commands` calls it before it opens a session.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.process import environment
from headrace_cli.access import announcement
from headrace_cli.access.bulletin import Bulletin


@dataclass(frozen=True, slots=True)
class Place:
    """The NATS server that a command uses.

    Attributes:
        receive: base URL of a receiver; None where none is known and events go straight to NATS.
        source: the origin of the address, for messages.
        up: is it the NATS of a `headrace up`, whose files say which channels exist?
        bulletin: the channels' state as a `headrace up` on this NATS wrote it; empty without one.
        named: has somebody given the address, or is it only the default?
    """

    nats: NatsSettings
    receive: str | None
    source: str
    up: bool = False
    bulletin: Bulletin = Bulletin()
    named: bool = True


def find(nats: str | None, variables: Mapping[str, str] | None = None) -> Place:
    """The first of: `--nats`, NATS_URL, the running `headrace up`, the local default.

    Credentials and TLS always come from the NATS_* variables.

    Raises:
        Misconfigured: a variable is wrong, or several `headrace up` run.
    """
    given = dict(os.environ if variables is None else variables)
    if nats is not None:
        return _place({**given, "NATS_URL": nats}, "--nats", _bulletin_of(nats))
    if given.get("NATS_URL"):
        return _place(given, "NATS_URL", _bulletin_of(given["NATS_URL"]))
    up = announcement.the_one()
    if up is not None:
        source = f"the headrace up with pid {up.pid}"
        return _place({**given, "NATS_URL": up.nats}, source, up.bulletin(), up.listen)
    source = "the default: no --nats, no NATS_URL, and no headrace up is running"
    return replace(_place(given, source, Bulletin()), named=False)


def _bulletin_of(nats: str) -> Bulletin:
    return next((up.bulletin() for up in announcement.running() if up.nats == nats), Bulletin())


def _place(variables: Mapping[str, str], source: str, bulletin: Bulletin, receive: str | None = None) -> Place:
    return Place(environment.fill(NatsSettings, variables), receive, source, receive is not None, bulletin)

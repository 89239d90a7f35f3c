"""Where the verbs find their NATS: said by an option, by the environment, or by the `headrace up` that runs.

Decides only; connects to nothing. Called by `headrace_cli.access.session`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.process import environment
from headrace_cli.access import announcement
from headrace_cli.access.told import Told


@dataclass(frozen=True, slots=True)
class Place:
    """What was found.

    Attributes:
        receive: base URL of a receiver that is known; None where events go straight to NATS.
        told_by: where the address of NATS comes from, for messages.
        up: is it a `headrace up`, whose files say which channels there are?
        told: what a `headrace up` on this NATS says of its channels; None without one.
        named: has anybody said where NATS is, or is it only where it would be by default?
    """

    nats: NatsSettings
    receive: str | None
    told_by: str
    up: bool = False
    told: Told | None = None
    named: bool = True


def find(nats: str | None, variables: Mapping[str, str] | None = None) -> Place:
    """The first of: `--nats`, NATS_URL, the running `headrace up`, the local default.

    Credentials and TLS always come from the NATS_* variables.

    Raises:
        Misconfigured: a variable is wrong, or several `headrace up` run.
    """
    given = dict(os.environ if variables is None else variables)
    if nats is not None:
        return _place({**given, "NATS_URL": nats}, "--nats", told=_told_of(nats))
    if given.get("NATS_URL"):
        return _place(given, "NATS_URL", told=_told_of(given["NATS_URL"]))
    up = announcement.the_one()
    if up is not None:
        told_by = f"the headrace up with pid {up.pid}"
        return _place({**given, "NATS_URL": up.nats}, told_by, up.listen, told=up.told())
    return replace(_place(given, "the default: no --nats, no NATS_URL, and no headrace up is running"), named=False)


def _told_of(nats: str) -> Told | None:
    return next((up.told() for up in announcement.running() if up.nats == nats), None)


def _place(
    variables: Mapping[str, str], told_by: str, receive: str | None = None, *, told: Told | None = None
) -> Place:
    return Place(environment.read(NatsSettings, variables), receive, told_by, up=receive is not None, told=told)

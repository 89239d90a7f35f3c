"""Where a command does its work: in a session with NATS, at a place that is not asked yet, or in a cluster.

The modules that speak NATS are imported here, when a verb runs, and not for `--help`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace_cli.commands.rules import Given

if TYPE_CHECKING:
    from headrace_cli.access.place import Place
    from headrace_cli.access.session import Session
    from headrace_cli.cluster.objects import Objects


def in_place(given: Given, work: Callable[[Place, Given], Coroutine[Any, Any, int]]) -> int:
    """Do the work with the place that the options and the environment name; gives the exit status.

    Raises:
        Misconfigured: the two contradict each other. The errors of the work are raised, too.
    """
    import asyncio

    from headrace.io.process import log
    from headrace_cli.access import place

    # The connection's news is in the errors; its log would be for people who run servers.
    log.configure("error", plain=True)
    return asyncio.run(work(place.find(given["nats"]), given))


def on_nats(given: Given, work: Callable[[Session, Given], Awaitable[int]]) -> int:
    """Do the work in a session; gives the exit status.

    Raises:
        Unavailable: NATS does not answer. The errors of the work are raised, too.
    """
    from headrace_cli.access import session

    async def run(place: Place, _: Given) -> int:
        async with session.session(place) as connected:
            return await work(connected, given)

    return in_place(given, run)


def in_cluster(given: Given) -> bool:
    """Is a cluster's API server to be asked?"""
    return bool(given["cluster"] or given["kubeconfig"] or given["context"])


def cluster(given: Given) -> Objects:
    """The objects of the cluster that the options name.

    Raises:
        Misconfigured: there is no such kubeconfig or context, or the extra `kn` is missing.
    """
    from headrace_cli.cluster.kube import Kube

    return Kube(Path(given["kubeconfig"]) if given["kubeconfig"] else None, given["context"])


def on_cluster(given: Given, work: Callable[[Objects, Given], Coroutine[Any, Any, int]]) -> int:
    """Do the work with a cluster's objects; the default namespace is that of the kubeconfig's context.

    Raises:
        Misconfigured: as `cluster` does. The errors of the work are raised, too.
    """
    import asyncio

    from headrace.io.process import log

    log.configure("error", plain=True)
    objects = cluster(given)
    source = click.get_current_context().get_parameter_source("namespace")
    if source is click.core.ParameterSource.DEFAULT:
        given = {**given, "namespace": objects.namespace}
    return asyncio.run(work(objects, given))

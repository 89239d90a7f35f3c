"""The predecessor that an installation of another kind has left: a `reconcile` that nobody asks and that would run on.

The manifest names its objects, since kubectl deletes nothing that a file does not hold any more (ADR 032). They go once
the `reconcile` that is asked now has answered: where that one can't run, its predecessor may still be wanted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.core.channel.child_marks import COMPONENT_LABEL, NAME_LABEL, US
from headrace.core.errors import HeadraceError, Refused, Unavailable
from headrace.io.process import log
from headrace_operator.kube.api import Body, KubeApi
from headrace_operator.kube.kinds import Discovery

LOOK_AGAIN_SECONDS = 5.0
# An object of that name without these labels is somebody else's, and stays.
LABELS = {NAME_LABEL: US, COMPONENT_LABEL: "reconcile"}

_log = log.get("operator")


@dataclass(frozen=True, slots=True)
class PredecessorObject:
    """One object of our own namespace."""

    api_version: str
    kind: str
    name: str


def named(text: str) -> Iterator[PredecessorObject]:
    """Read `Kind.apiVersion/name`, with spaces between several: `Deployment.apps/v1/headrace-reconcile`."""
    for word in text.split():
        kind, _, rest = word.partition(".")
        api_version, _, name = rest.rpartition("/")
        if kind and api_version and name:
            yield PredecessorObject(api_version, kind, name)


def is_left(body: Mapping[str, Any]) -> bool:
    """Is it ours, without an owner that will delete it? Knative's Route owns a Service of its name."""
    metadata = body["metadata"]
    labels = metadata.get("labels") or {}
    return labels.items() >= LABELS.items() and not (
        metadata.get("ownerReferences") or metadata.get("deletionTimestamp")
    )


@dataclass(frozen=True, slots=True)
class Predecessor:
    """Deletes the named objects, once.

    Attributes:
        answers: asks today's hook something harmless; raises HeadraceError when it does not answer.
    """

    api: KubeApi
    discovery: Discovery
    namespace: str
    named: tuple[PredecessorObject, ...]
    answers: Callable[[], Awaitable[object]]
    pause: float = LOOK_AGAIN_SECONDS

    async def run(self) -> None:
        """Return when no object is left, or when we may not look for them."""
        while True:
            try:
                left = [found async for found in self._left()]
                if not left or await self._is_answered():
                    for path, body in left:
                        await self.api.delete(path, body["metadata"]["uid"])
                        _log.info("superseded, deleted", path=path)
                    return
            except Refused as error:
                _log.info("what another installation has left is not looked for", error=str(error))
                return
            except Unavailable as error:
                _log.debug("what another installation has left stays for now", error=str(error))
            await asyncio.sleep(self.pause)

    async def _is_answered(self) -> bool:
        """Does the hook answer? A refusal is no answer: the gateway says 404 while a Knative Service is being made."""
        try:
            await self.answers()
        except HeadraceError as error:
            _log.debug("what another installation has left stays until reconcile answers", error=str(error))
            return False
        return True

    async def _left(self) -> AsyncIterator[tuple[str, Body]]:
        for one in self.named:
            kind = await self.discovery.by_kind(one.api_version, one.kind)
            if kind is None:
                continue
            path = kind.path(self.namespace, one.name)
            body = await self.api.get(path)
            if body is not None and is_left(body):
                yield path, body

"""A copy of all objects of one kind, kept up to date by a watch.

A watch lists the objects once and follows their changes from there. When a connection ends, the next one goes on where
it was; when the API server has forgotten that place (410), the watch lists again and reports the objects that have
vanished meanwhile. This module knows nothing of channels. `Cache.complete` says whether the copy can be believed to
hold everything.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from math import inf
from typing import Any

from headrace.core.errors import HeadraceError, Refused, Unavailable
from headrace.io.process import log
from headrace.io.process.trouble import Trouble
from headrace_operator.kube.api import Body, Expired, KubeApi
from headrace_operator.kube.kinds import Key, Kind, key

Listener = Callable[[Body | None, Body | None], None]
"""It is called with an object before and after a change; None where there was none before, or is none after."""

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0
# The server's own default; each watch ends at a random moment, so that not all begin anew at once.
WATCH_SECONDS = (300, 600)
# Nobody here reads this annotation, and it takes half of the memory.
NOISE = "kubectl.kubernetes.io/last-applied-configuration"

_log = log.get("watch")


class Cache:
    """The objects of one kind.

    Attributes:
        complete: the kind has been listed, and the watch is up: an object that is not here does not exist, give or take
            a moment.
        up_since: when the watch came up, on the loop's clock; its first changes happened before.
        listeners: called with every change, after it was taken in.
        trim: takes those members out of an object that are not kept, such as a Secret's data.
        keeps: says whether an object, as the API server sends it, belongs here; all others count as not there.
    """

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.complete = False
        self.up_since = inf
        self.listeners: list[Listener] = []
        self.trim: Callable[[Body], object] | None = None
        self.keeps: Callable[[Body], bool] = lambda _: True
        self.version = ""
        self._objects: dict[Key, Body] = {}
        self._listed = asyncio.Event()

    def get(self, place: Key) -> Body | None:
        return self._objects.get(place)

    def __iter__(self) -> Iterator[Body]:
        return iter(self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)

    @property
    def listed(self) -> bool:
        """Has the kind been listed once? From then on the copy is at worst old."""
        return self._listed.is_set()

    async def wait_until_listed(self) -> None:
        await self._listed.wait()

    def note(self, body: Body) -> None:
        """Take in an object that the API server has just answered, ahead of the watch; an older one changes nothing."""
        if key(body) not in self._objects and self.version and not _newer(_version(body), self.version):
            # The watch is past that version, so the object was deleted since.
            return
        self.put(body)

    def put(self, body: Body) -> None:
        if not self.keeps(body):
            self.remove(body)
            return
        body = slim(body)
        # A list leaves these two out of its items.
        body.setdefault("apiVersion", self.kind.api_version)
        body.setdefault("kind", self.kind.kind)
        if self.trim is not None:
            self.trim(body)
        place = key(body)
        old = self._objects.get(place)
        if old is not None and not _newer(_version(body), _version(old)):
            return
        self._objects[place] = body
        self._tell(old, body)

    def remove(self, body: Body) -> None:
        old = self._objects.get(key(body))
        if old is not None and not _newer(_version(old), _version(body)):
            del self._objects[key(body)]
            self._tell(old, None)

    def replace(self, items: list[Body], version: str) -> None:
        """Replace all objects by those of a list at a version."""
        self.version = version
        present = {key(item) for item in items}
        for place, old in list(self._objects.items()):
            if place not in present and not _newer(_version(old), version):
                del self._objects[place]
                self._tell(old, None)
        for item in items:
            self.put(item)
        self._listed.set()

    def _tell(self, old: Body | None, new: Body | None) -> None:
        for listener in self.listeners:
            listener(old, new)


class Watch:
    """Keeps one cache up to date, for ever.

    Attributes:
        refused: the API server has just said that we may not see the kind.
        answered: the API server has once listed the objects, or refused to.
    """

    def __init__(
        self, api: KubeApi, kind: Kind, *, namespace: str = "", labels: str = "", fields: str = "", quiet: bool = False
    ) -> None:
        """Args:
        namespace: empty for all.
        labels, fields: selectors.
        quiet: it is no trouble when the kind is not served, or when we may not see it.
        """
        self.cache = Cache(kind)
        self.namespace = namespace
        self._api = api
        self._path = kind.path(namespace)
        self._selection = {name: text for name, text in (("labelSelector", labels), ("fieldSelector", fields)) if text}
        self._quiet = quiet
        self._trouble = Trouble()
        self.refused = False
        self.answered = asyncio.Event()

    async def run(self) -> None:
        """List and watch until cancelled."""
        pause = FIRST_PAUSE
        while True:
            try:
                if not self.cache.version:
                    items, version = await self._api.list(self._path, self._selection)
                    self.refused = False
                    self.cache.replace(items, version)
                    self.cache.complete = True
                    self.answered.set()
                await self._follow()
                pause = FIRST_PAUSE
                # A server that ends each watch at once must not be asked without pause.
                await asyncio.sleep(FIRST_PAUSE * random.random())
                continue
            except Expired:
                _log.debug("watch has expired, listing again", kind=self.cache.kind.title)
                self.cache.version = ""
            except (Unavailable, Refused) as error:
                self._complain(error)
                self.refused = isinstance(error, Refused)
                if self.refused:
                    self.cache.version = ""
                    self.answered.set()
            except Exception as error:  # noqa: BLE001  # others wait for the objects: the watch must go on
                self._complain(Unavailable(f"unforeseen: {error!r}"))
                self.cache.version = ""
            if self.cache.complete:
                pause = FIRST_PAUSE
            self.cache.complete = False
            await asyncio.sleep(pause * (0.5 + random.random()))
            pause = min(LONGEST_PAUSE, pause * 2)

    async def _follow(self) -> None:
        seconds = str(random.randint(*WATCH_SECONDS))
        parameters = {**self._selection, "resourceVersion": self.cache.version, "timeoutSeconds": seconds}
        async for change in self._api.watch(self._path, parameters):
            if change is None:
                self.cache.complete = True
                self.cache.up_since = asyncio.get_running_loop().time()
                self._at_ease()
                continue
            body = change["object"]
            if change["type"] in ("ADDED", "MODIFIED"):
                self.cache.put(body)
            elif change["type"] == "DELETED":
                self.cache.remove(body)
            self.cache.version = _version(body) or self.cache.version

    def _complain(self, error: HeadraceError) -> None:
        quiet = self._quiet and isinstance(error, Refused)
        write = _log.warning if not quiet and self._trouble.note(str(error)) else _log.debug
        write("watch is interrupted, trying again", kind=self.cache.kind.title, error=str(error))

    def _at_ease(self) -> None:
        if self._trouble.over():
            _log.info("watch works again", kind=self.cache.kind.title)


def slim(body: Body) -> Body:
    """The object without the parts that nobody reads here."""
    metadata = body["metadata"]
    metadata.pop("managedFields", None)
    annotations = metadata.get("annotations")
    if annotations:
        annotations.pop(NOISE, None)
    return body


def _version(body: Mapping[str, Any]) -> str:
    return str(body["metadata"].get("resourceVersion") or "")


def _newer(one: str, other: str) -> bool:
    """Versions are numbers in all API servers known; where one is not, the latest answer counts."""
    with suppress(ValueError):
        return int(one) > int(other)
    return one != other

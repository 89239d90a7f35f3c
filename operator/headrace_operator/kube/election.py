"""Of several operators one works: the one that holds the Lease.

A candidate takes the Lease when it is free, or when its holder has been silent for the Lease's whole duration by our
own clock. The leader renews it three times in that time. It stops its work at once when the Lease is another's, or when
it could not renew the Lease for so long that another may take it soon. At its end it gives the Lease back, so that the
next one takes over at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from headrace.core.errors import HeadraceError, Refused, Unavailable
from headrace.io.process import clock, log
from headrace.io.process.trouble import Trouble
from headrace_operator.kube.api import Body, Conflict, KubeApi
from headrace_operator.kube.kinds import LEASE, Key
from headrace_operator.kube.watch import Watch

# A leader that could not renew the Lease for this part of its duration stops: well before another takes over.
STOP_AT = 2 / 3
RELEASE_SECONDS = 5.0

_log = log.get("election")


class Election:
    """One candidate.

    Attributes:
        leads: this operator holds the Lease now.
    """

    def __init__(self, api: KubeApi, place: Key, identity: str, duration: float) -> None:
        self.leads = False
        self._api = api
        self._place = place
        self._identity = identity
        self._duration = duration
        self._path = LEASE.path(*place)
        self._watch = Watch(api, LEASE, namespace=place[0], fields=f"metadata.name={place[1]}")
        self._changed = asyncio.Event()
        self._trouble = Trouble()
        self._seen_at = float("-inf")
        self._watch.cache.listeners.append(self._on_change)

    async def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Be a candidate until cancelled, and run `work` while leading; `work` is cancelled when the Lease is lost."""
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._watch.run(), name="watch-lease")
            try:
                while True:
                    lease = await self._won()
                    _log.info("this operator leads", identity=self._identity)
                    await self._lead(lease, work)
                    _log.warning("the Lease is lost, work has stopped", identity=self._identity)
            finally:
                watching.cancel()

    async def _won(self) -> Body:
        """Wait for the Lease; gives the object as it was written."""
        await self._watch.cache.wait_until_listed()
        while True:
            self._changed.clear()
            lease = self._watch.cache.get(self._place)
            left = self._left(lease)
            if left <= 0:
                taken = await self._take(lease)
                if taken is not None:
                    return taken
                left = self._duration / 10
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._changed.wait()

    async def _take(self, lease: Body | None) -> Body | None:
        now = _now()
        try:
            if lease is None:
                return await self._api.create(LEASE.path(self._place[0]), self._first(now))
            spec = lease["spec"]
            return await self._write(
                lease, acquireTime=now, leaseTransitions=int(spec.get("leaseTransitions") or 0) + 1
            )
        except Conflict:
            return None
        except (Unavailable, Refused) as error:
            self._complain("the Lease can't be taken, trying again", error)
            await asyncio.sleep(min(1.0, self._duration / 10))
            return None

    async def _lead(self, lease: Body, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.leads = True
        working = asyncio.create_task(work(), name="lead")
        renewing = asyncio.create_task(self._renew(lease), name="renew-lease")
        try:
            await asyncio.wait((working, renewing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.leads = False
            ended = working.done()
            working.cancel()
            renewing.cancel()
            await asyncio.wait((working, renewing))
            if not renewing.cancelled():
                renewing.result()
            else:
                await self._release()
        if ended:
            working.result()

    async def _renew(self, lease: Body) -> None:
        """Renew the Lease until it is lost."""
        loop = asyncio.get_running_loop()
        good_at, pause = loop.time(), self._duration / 3
        while True:
            await self._a_while(pause)
            if self._is_anothers():
                return
            try:
                async with asyncio.timeout_at(good_at + self._duration * STOP_AT):
                    lease = await self._write(lease)
                good_at, pause = loop.time(), self._duration / 3
                continue
            except Conflict:
                found = self._watch.cache.get(self._place)
                with suppress(Unavailable, Refused, TimeoutError):
                    async with asyncio.timeout_at(good_at + self._duration * STOP_AT):
                        found = await self._api.get(self._path)
                if found is None or found["spec"].get("holderIdentity") != self._identity:
                    return
                lease = found
            except TimeoutError:
                return
            except (Unavailable, Refused) as error:
                self._complain("the Lease can't be renewed, trying again", error)
            pause = self._duration / 15
            if loop.time() + pause > good_at + self._duration * STOP_AT:
                return

    async def _a_while(self, seconds: float) -> None:
        """Wait so many seconds, or until the Lease is another's."""
        deadline = asyncio.get_running_loop().time() + seconds
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                while not self._is_anothers():
                    self._changed.clear()
                    await self._changed.wait()

    async def _release(self) -> None:
        """Give the Lease back, so that nobody has to wait until it runs out."""
        with suppress(Unavailable, Refused, TimeoutError):
            async with asyncio.timeout(RELEASE_SECONDS):
                lease = await self._api.get(self._path)
                if lease is not None and lease["spec"].get("holderIdentity") == self._identity:
                    await self._write(lease, holderIdentity="", leaseDurationSeconds=1)
                    _log.info("the Lease is given back", identity=self._identity)

    async def _write(self, lease: Body, **changes: object) -> Body:
        spec = {
            **lease["spec"],
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, round(self._duration)),
            "renewTime": _now(),
            **changes,
        }
        written = await self._api.replace(self._path, {**lease, "spec": spec})
        self._trouble.over()
        self._watch.cache.note(written)
        return written

    def _complain(self, words: str, error: HeadraceError) -> None:
        write = _log.warning if self._trouble.note(f"{words}: {error}") else _log.debug
        write(words, error=str(error))

    def _first(self, now: str) -> Body:
        spec = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, round(self._duration)),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": 0,
        }
        metadata = {"namespace": self._place[0], "name": self._place[1]}
        return {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": spec}

    def _is_anothers(self) -> bool:
        lease = self._watch.cache.get(self._place)
        return lease is not None and lease["spec"].get("holderIdentity") not in ("", None, self._identity)

    def _left(self, lease: Body | None) -> float:
        """Seconds until the Lease may be taken; they count from when we saw it change, since clocks differ."""
        # A Lease under our own name is that of the process before us in this pod.
        if lease is None or lease["spec"].get("holderIdentity") in ("", None, self._identity):
            return 0.0
        duration = float(lease["spec"].get("leaseDurationSeconds") or self._duration)
        return self._seen_at + duration - asyncio.get_running_loop().time()

    def _on_change(self, _old: Body | None, _new: Body | None) -> None:
        self._seen_at = asyncio.get_running_loop().time()
        self._changed.set()


def _now() -> str:
    return clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")

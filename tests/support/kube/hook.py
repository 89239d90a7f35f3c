"""A stand-in for `reconcile`: answers as a test wants, and keeps what it was asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.http.subscriber import Answer, Received, Say, Subscriber
from tests.support.waiting import until

JSON = {"content-type": "application/json"}

Decide = Callable[[dict[str, Any]], Mapping[str, Any]]


@dataclass
class Call:
    """One call; `verb` is sync, finalize or customize."""

    verb: str
    request: dict[str, Any]
    at: float

    @property
    def name(self) -> str:
        return str(self.request["parent"]["metadata"]["name"])


@dataclass
class Hook:
    """The three hooks.

    Attributes:
        status: answers 200 unless this says otherwise.
        delay: seconds before each answer to sync.
        sync, finalize: the answer to a request; what is left out is that of an empty channel.
        related: the `relatedResources` of every channel.
        annotations: that every channel should have.
        system_namespace: where channels have children beside their own namespaces.
        calls: all calls so far.
    """

    server: Subscriber
    root: str
    status: int = 200
    delay: float = 0.0
    sync: Decide = lambda _: {}
    finalize: Decide = lambda _: {"finalized": True}
    related: list[dict[str, Any]] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)
    system_namespace: str = ""
    calls: list[Call] = field(default_factory=list)

    def __post_init__(self) -> None:
        for verb in ("sync", "finalize", "customize"):
            self.server.find(f"{self.root}/{verb}").decides(self._answers(verb))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}{self.root}"

    def of(self, verb: str = "sync", name: str | None = None) -> list[Call]:
        return [call for call in self.calls if call.verb == verb and name in (None, call.name)]

    async def called(self, times: int = 1, verb: str = "sync", name: str | None = None) -> Call:
        """The call with that number, of its kind; waits for it."""
        what = f"{verb} was called {times} times for {name or 'any channel'}"
        await until(what, lambda: len(self.of(verb, name)) >= times, 60.0)
        return self.of(verb, name)[times - 1]

    async def saw(self, what: Callable[[dict[str, Any]], bool], words: str) -> None:
        """Wait for a call of sync whose request is like that."""
        await until(f"the hook sees {words}", lambda: any(what(call.request) for call in self.of()), 60.0)

    def _answers(self, verb: str) -> Callable[[Received], Answer]:
        def answer(received: Received) -> Answer:
            request = json.loads(received.body)
            self.calls.append(Call(verb, request, received.at))
            if self.status != 200:
                return Say(self.status, body=b"as the test wants")
            if verb == "customize":
                extension = {"annotations": self.annotations, "systemNamespace": self.system_namespace}
                wanted = {"relatedResources": self.related, "headrace": extension}
                return Say(200, JSON, json.dumps(wanted).encode())
            generation = request["parent"]["metadata"].get("generation")
            body: dict[str, Any] = {"status": status(generation), "children": [], "resyncAfterSeconds": 0}
            body.update(self.sync(request) if verb == "sync" else self.finalize(request))
            if places := lease_places(body["status"]):
                body.setdefault("headrace", {}).setdefault("leasePlaces", places)
            return Say(200, JSON, json.dumps(body).encode(), self.delay if verb == "sync" else 0.0)

        return answer


def lease_places(status: object) -> dict[str, Any]:
    """As `reconcile` tells the operator where to open leases; none when the status names no stream."""
    if not isinstance(status, Mapping):
        return {}
    forwards = {
        row["durable"]: {"url": row["forward"], "pulls": row.get("pulls", False)}
        for row in status.get("consumers") or ()
        if row.get("forward")
    }
    stream = "" if status.get("elsewhere") else status.get("stream")
    return {"stream": stream, "receive": status.get("receive", ""), "forwards": forwards} if stream else {}


def status(generation: int = 1, ready: str = "True", **more: Any) -> dict[str, Any]:
    """A channel's status with one condition."""
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-31T12:00:00Z"}
    if ready != "True":
        condition |= {"reason": "NotYet", "message": "as the test wants"}
    return {"observedGeneration": generation, "conditions": [condition], **more}

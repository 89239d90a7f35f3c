"""A load on one channel of a cluster, faults beside it, and the account of what became of each event.

The sender and the subscriber are here, on the node itself and outside of the cluster; everything between them is pods.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

import nats.errors

from tests.faults.ledger import Sent, Strike
from tests.faults.producer import Producer
from tests.faults.sink import Place, Say, Sink
from tests.support.cluster.account import Account, Fault, account
from tests.support.cluster.kubectl import SYSTEM, Kubectl, Pod, until
from tests.support.cluster.reach import address, address_of
from tests.support.nats.streams import ApiError, Channel, Nats

# A sender of Knative's own waits about as long for an answer.
TRY_SECONDS = 30.0
GIVES_UP_SECONDS = 240.0
SETTLED_SECONDS = 180.0
_AWAY = (nats.errors.Error, TimeoutError, OSError, ApiError)

MANIFEST = """\
apiVersion: v1
kind: Namespace
metadata: {{name: {namespace}}}
---
apiVersion: messaging.knative.dev/v1alpha1
kind: NatsJetStreamChannel
metadata: {{name: {name}, namespace: {namespace}, annotations: {annotations}}}
---
apiVersion: messaging.knative.dev/v1
kind: Subscription
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  channel: {{apiVersion: messaging.knative.dev/v1alpha1, kind: NatsJetStreamChannel, name: {name}}}
  subscriber: {{uri: "{subscriber}"}}
  delivery: {{retry: 5, backoffPolicy: exponential, backoffDelay: PT0.2S}}
"""


class World:
    """One cluster with a subscriber beside it; use it as a context manager.

    Attributes:
        kubectl: for whatever a test does to the cluster.
        sink: subscribers, each at a path of its own.
    """

    def __init__(self, kubectl: Kubectl, address: str, nats_url: str) -> None:
        """Args:
        address: of this machine, as pods reach it.
        """
        self.kubectl = kubectl
        self.sink = Sink(address=address)
        self._nats_url = nats_url
        self._namespaces: set[str] = set()

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            for namespace in self._namespaces:
                self.kubectl("delete", "namespace", namespace, "--wait=false", "--ignore-not-found")
            for namespace in self._namespaces:
                self.kubectl("wait", "--for=delete", f"namespace/{namespace}", "--timeout=100s")
        finally:
            self.sink.close()

    def flow(
        self,
        namespace: str,
        name: str,
        *,
        seconds: float = 0.0,
        within: float = 120.0,
        scope: str = "cluster",
        nats: str = "",
        **annotations: str,
    ) -> Flow:
        """A channel with one Subscription, both Ready.

        Args:
            seconds: that the subscriber takes for each event.
            within: seconds that each of the two may take until it is Ready.
            scope: `cluster`, or `namespace` for functions of the namespace's own.
            nats: URL of the account that its stream is in, where that is another one.
            annotations: of the channel, without `headrace.dev/`; underscores stand for dashes.
        """
        path = f"/{namespace}/{name}"
        place = self.sink.place(path)
        place.decide = lambda _: Say(delay=seconds)
        marks = {f"headrace.dev/{key.replace('_', '-')}": text for key, text in annotations.items()}
        marks["eventing.knative.dev/scope"] = scope
        self._namespaces.add(namespace)
        manifest = MANIFEST.format(
            namespace=namespace, name=name, annotations=_inline(marks), subscriber=self.sink.uri(path)
        )
        self.kubectl.apply(manifest)
        self.kubectl.wait_ready("natsjetstreamchannel", name, namespace, within)
        self.kubectl.wait_ready("subscription", name, namespace, within)
        return Flow(self, Channel(namespace, name), place, nats or self._nats_url)

    def url(self, channel: Channel) -> tuple[str, Mapping[str, str]]:
        """Where to POST from here, and with which Host."""
        url = urlsplit(address_of(self.kubectl, "natsjetstreamchannel", channel.name, channel.namespace))
        ip, port = address(self.kubectl, url.geturl())
        return f"http://{ip}:{port}{url.path}", {"Host": url.netloc}

    def nats(self) -> Nats:
        return Nats(self._nats_url)


@dataclass
class Flow:
    """A channel, and its one subscriber."""

    world: World
    channel: Channel
    place: Place
    nats_url: str

    def pods(self, function: str) -> list[Pod]:
        """Of a function that serves this channel alone."""
        ours = f"{self.channel.namespace}/{self.channel.name}"
        found = self.world.kubectl.pods(f"app.kubernetes.io/name=headrace,app.kubernetes.io/component={function}")
        return [pod for pod in found if pod.annotations.get("headrace.dev/channel") == ours]

    async def under_load(self, prefix: str, count: int, rate: float, faults: Sequence[Fault] = ()) -> Account:
        """Send, strike, wait until everything is settled, and draw up the account.

        Args:
            prefix: of the events' ids; no other load of this flow has it.
        """
        sent, since, parked = Sent(), len(self.place.arrivals), await self._parked()
        url, headers = self.world.url(self.channel)
        producer = Producer(
            url, sent, try_seconds=TRY_SECONDS, patience=GIVES_UP_SECONDS, final=lambda status: status in (400, 413)
        )
        ids = [f"{prefix}-{number}" for number in range(count)]
        sending = asyncio.create_task(producer.send(ids, rate=rate, headers=headers))
        try:
            began = time.monotonic()
            strikes = [await _struck(fault, began) for fault in faults]
            await sending
        finally:
            sending.cancel()
        await self._settled()
        arrivals = self.place.arrivals[since:]
        return account(sent, arrivals, list(zip(faults, strikes, strict=True)), await self._parked() - parked)

    async def _settled(self) -> None:
        """Until the consumer holds nothing, twice in a row, since its counts lag a little; or until it is too late."""
        deadline = time.monotonic() + SETTLED_SECONDS
        calm = 0
        while calm < 2 and time.monotonic() < deadline:
            await asyncio.sleep(0.3)
            with suppress(*_AWAY):
                calm = 0 if await self._left() else calm + 1

    async def _left(self) -> int:
        async with Nats(self.nats_url) as client:
            listed = (await client.call(f"CONSUMER.LIST.{self.channel.stream}"))["consumers"]
            assert len(listed) == 1, listed
            return int(listed[0]["num_pending"]) + int(listed[0]["num_ack_pending"])

    async def _parked(self) -> int:
        async with Nats(self.nats_url) as client:
            aside = await client.call(
                f"STREAM.INFO.{self.channel.aside}",
                {"subjects_filter": f"{self.channel.namespace}.{self.channel.name}._knative_aside.parked.>"},
            )
            return len(aside["state"].get("subjects") or {})


async def _struck(fault: Fault, began: float) -> Strike:
    await asyncio.sleep(max(0.0, began + fault.at - time.monotonic()))
    await asyncio.to_thread(fault.first)
    since = time.monotonic()
    await asyncio.to_thread(fault.does)
    return Strike(since, time.monotonic() + fault.lasts, most=1_000_000)


def _inline(marks: Mapping[str, str]) -> str:
    return "{" + ", ".join(f'{key}: "{text}"' for key, text in marks.items()) + "}"


def running(kubectl: Kubectl, selector: str, at_least: int = 1, seconds: float = 60.0, namespace: str = SYSTEM) -> None:
    """Wait until so many pods of a selector are ready."""
    until(
        f"{at_least} pods of {selector} are ready",
        lambda: sum(pod.ready for pod in kubectl.pods(selector, namespace)) >= at_least,
        seconds,
    )

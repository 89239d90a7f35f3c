"""A shop whose channels are looked at: API server, NATS, operator, functions and subscribers, all of them real.

What is missing beside a cluster are pods: functions are processes, each with a port for Prometheus, as in the image.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from infra.generate import crd
from tests.support.functions.functions import Function
from tests.support.http.subscriber import Place, Subscriber
from tests.support.kube.control_plane import ControlPlane
from tests.support.kube.kube_api import CHANNELS, Api, connect
from tests.support.kube.operator_process import OperatorProcess
from tests.support.nats.nats_server import NatsServer, free_port
from tests.support.nats.streams import Nats
from tests.support.waiting import until

ROOT = Path(__file__).resolve().parents[2]
NEIGHBOURS = ROOT / "tests/control_plane/crds/neighbours.yaml"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAMESPACE = "shop"
FUNCTIONS = ("receive", "forward", "reconcile")
ASIDE = "KN_SHOP__ORDERS_aside"
PLACES = ("shipping", "pricing", "billing", "audit", "ledger", "counter", "letters")


@dataclass(frozen=True)
class Shop:
    """What an act of the day may touch.

    Attributes:
        places: what plays the subscribers, by name.
        metrics: port of `/metrics`, by what serves it.
    """

    nats: NatsServer
    functions: Mapping[str, Function]
    places: Mapping[str, Place]
    metrics: Mapping[str, int]
    operator: OperatorProcess
    plane: ControlPlane


@contextmanager
def opened(directory: Path) -> Iterator[Shop]:
    """All its processes; the channels come with `stocked`."""
    with ExitStack() as stack:
        plane = ControlPlane(directory / "plane")
        stack.callback(plane.stop)
        plane.start()
        nats = NatsServer(directory / "nats")
        stack.callback(nats.kill)
        nats.start()
        subscriber = stack.enter_context(Subscriber())
        metrics = {name: free_port() for name in FUNCTIONS}
        functions = {
            name: stack.enter_context(Function(name, nats.url, directory, METRICS_PORT=str(port)))
            for name, port in metrics.items()
        }
        operator = OperatorProcess(
            plane.kubeconfig,
            nats.url,
            functions["reconcile"].url,
            directory,
            FORWARD_URL=functions["forward"].url,
            WATCH_NAMESPACE=NAMESPACE,
            POD_NAMESPACE=NAMESPACE,
            LOG_LEVEL="info",
        )
        stack.callback(operator.stop)
        places = {name: subscriber.place() for name in PLACES}
        yield Shop(nats, functions, places, {**metrics, "operator": operator.port}, operator, plane)


@asynccontextmanager
async def stocked(shop: Shop) -> AsyncIterator[Api]:
    """The channels, Ready, with the operator at work."""
    session, api = connect(shop.plane)
    async with session:
        texts = (crd.FILE.read_text(encoding="utf-8"), NEIGHBOURS.read_text(encoding="utf-8"))
        for definition in itertools.chain.from_iterable(map(yaml.safe_load_all, texts)):
            (await api.create(DEFINITIONS, definition)).unwrapped()
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        (await api.create("/api/v1/namespaces", body)).unwrapped()
        folder = CHANNELS.format(namespace=NAMESPACE)

        async def are_served() -> bool:
            return (await api.get(folder)).accepted

        await until("channels are served", are_served, 60.0)
        shop.operator.start()
        await shop.operator.leads()
        for channel in _channels(shop):
            (await api.create(folder, channel)).unwrapped()

        async def are_ready() -> bool:
            return all(map(_is_ready, (await api.get(folder)).unwrapped()["items"]))

        await until("all channels are ready", are_ready, 60.0)
        # Aside there is no limit but what somebody sets.
        async with Nats(shop.nats.url) as nats:
            aside = await nats.call(f"STREAM.INFO.{ASIDE}")
            await nats.call(f"STREAM.UPDATE.{ASIDE}", {**aside["config"], "max_bytes": 200_000})
        yield api


def _is_ready(channel: Mapping[str, Any]) -> bool:
    conditions = (channel.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _channels(shop: Shop) -> list[dict[str, Any]]:
    letters = {"deadLetterSink": {"uri": shop.places["letters"].uri}}
    invoices = f"{shop.functions['receive'].url}/{NAMESPACE}/invoices"
    return [
        _channel(
            "orders",
            {"maxMsgs": 50_000, "discard": "New"},
            1000,
            _entry(shop, "shipping"),
            _entry(shop, "pricing", replyUri=invoices),
            _entry(shop, "billing", delivery={"retry": 2, "backoffDelay": "PT1S", **letters}),
            _entry(shop, "audit", delivery={"retry": 1}),
        ),
        _channel("invoices", {}, 100, _entry(shop, "ledger", delivery={"retry": 5})),
        # Full ones: the one discards what is old, the other refuses what is new.
        _channel("clicks", {"maxMsgs": 600, "discard": "Old"}, 20, _entry(shop, "counter")),
        _channel("returns", {"maxBytes": 200_000, "discard": "New"}, 100),
    ]


def _channel(name: str, stream: Mapping[str, Any], window: int, *subscribers: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "messaging.knative.dev/v1alpha1",
        "kind": "NatsJetStreamChannel",
        "metadata": {"name": name},
        "spec": {
            "subscribers": subscribers,
            "stream": {"config": stream},
            "consumerConfigTemplate": {"maxAckPending": window},
        },
    }


def _entry(shop: Shop, name: str, **more: Any) -> dict[str, Any]:
    uid = f"5d0a2f1c-0000-4000-8000-{PLACES.index(name):012d}"
    return {"uid": uid, "name": name, "generation": 1, "subscriberUri": shop.places[name].uri, **more}

"""Knative's cases of a Subscription with TLS: an event comes by TLS alone, and goes by TLS to subscriber and sink.

The names are those of Knative's cases. The two servers show certificates of an authority that nothing else trusts: each
case says in another way that it is to be trusted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace.core.security.flags import TransportEncryption
from tests.contract.receive.test_tls import Secured
from tests.support.functions.functions import Function
from tests.support.http.authorities import Authority, as_openssl_makes_it
from tests.support.http.subscriber import Place, Say, Subscriber
from tests.support.http.tls_front import TlsFront
from tests.support.http.tls_mount import certify, encrypt
from tests.support.nats.nats_permissions import PermittedServer, inbox_of
from tests.support.nats.streams import Channel, Lane, Nats
from tests.support.security.mounted import Mounted
from tests.support.waiting import until

pytest_plugins = ["tests.support.functions.served"]

THEIRS = as_openssl_makes_it()


class Way:
    """A strict `receive`, and a `forward`, with a subscriber that fails and a dead letter sink behind TLS."""

    def __init__(
        self, nats: Nats, secured: Secured, forward: Function, front: TlsFront, places: tuple[Place, Place]
    ) -> None:
        self.nats = nats
        self.secured = secured
        self.forward = forward
        self.subscriber, self.sink = places
        self._front = front

    async def delivers(self, channel: Channel, authority: Authority | None) -> None:
        """Send an event in, and see it at the subscriber, and then at the sink.

        Args:
            authority: what each address brings along; None: nothing.
        """
        certificates = {"CACerts": authority.pem.decode()} if authority is not None else {}
        addresses = {
            name: {
                "uri": place.uri.replace("http://", "https://").replace(_port(place), str(self._front.port)),
                **certificates,
            }
            for name, place in (("subscriber", self.subscriber), ("dead_letter", self.sink))
        }
        lane: Lane = await self.nats.serve(self.forward, channel, **addresses)
        assert await self.secured.status(self.secured.url(channel)) == 202
        await lane.lease(linger=0.3)

    async def trusts_by_bundle(self, mount: Mounted) -> None:
        mount.bundle(THEIRS.pem.decode())
        await until("the bundle counts", lambda: "security document" in self.forward.log, 30.0)

    @property
    def arrived(self) -> tuple[int, int]:
        return len(self.subscriber.received), len(self.sink.received)


def _port(place: Place) -> str:
    return place.uri.partition("://")[2].partition("/")[0].partition(":")[2]


@pytest.fixture
def mount(tmp_path: Path) -> Mounted:
    return Mounted(tmp_path / "of-forward")


@pytest.fixture
async def way(
    shared_server: PermittedServer, nats: Nats, subscriber: Subscriber, mount: Mounted, tmp_path: Path
) -> AsyncIterator[Way]:
    secured = Secured(shared_server, tmp_path)
    certify(secured.tls, secured.authority)
    encrypt(secured.security, TransportEncryption.STRICT)
    url, inbox = shared_server.url_of("forward"), inbox_of("forward")
    places = subscriber.place(Say(400)), subscriber.place(Say(202))
    forward = Function("forward", url, tmp_path, NATS_INBOX_PREFIX=inbox, HEADRACE_SECURITY_DIR=str(mount.directory))
    async with TlsFront(int(_port(places[0])), THEIRS.issue("127.0.0.1", "localhost")) as front:
        with secured.function, forward:
            yield Way(nats, secured, forward, front, places)


async def test_subscription_tls(way: Way, orders: Channel) -> None:
    await way.delivers(orders, THEIRS)
    assert way.arrived == (1, 1)


async def test_subscription_tls_trust_bundle(way: Way, orders: Channel, mount: Mounted) -> None:
    await way.trusts_by_bundle(mount)
    await way.delivers(orders, None)
    assert way.arrived == (1, 1)


async def test_subscription_tls_with_additional_trust_bundle(way: Way, orders: Channel, mount: Mounted) -> None:
    """The addresses bring an authority of others along; that of the servers is in a bundle."""
    await way.trusts_by_bundle(mount)
    await way.delivers(orders, as_openssl_makes_it())
    assert way.arrived == (1, 1)


async def test_without_any_of_them_nothing_is_sent(way: Way, orders: Channel) -> None:
    await way.delivers(orders, None)
    assert way.arrived == (0, 0)

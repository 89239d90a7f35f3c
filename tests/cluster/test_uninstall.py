"""The last of Headrace in a cluster that has used it: the makers of channels go first, parked events stay."""

from __future__ import annotations

import pytest

from tests.cluster.conftest import Told
from tests.cluster.test_flows import CHANNEL
from tests.cluster.test_install import streams
from tests.faults.sink import Say, http
from tests.support.cluster.installation import CHANNELS, Installation
from tests.support.cluster.kubectl import Kubectl, until
from tests.support.cluster.load import World
from tests.support.cluster.reach import Sender, address_of
from tests.support.nats.streams import Channel
from tests.support.programs.page import run_section

pytestmark = pytest.mark.timeout(400)


@pytest.mark.short
async def test_uninstalled_with_channels_that_others_make_and_with_parked_events(
    world: World, installation: Installation, kubectl: Kubectl, namespace: str, told: Told
) -> None:
    run_section(installation.shell, "Knative's default channel")
    place = world.sink.place(f"/{namespace}/plain")
    kubectl.apply(CHANNEL.format(namespace=namespace, subscriber=world.sink.uri(place.path)))
    kubectl.wait_ready("channel.messaging.knative.dev", "plain", namespace)
    flow = world.flow("parked", "orders")
    flow.place.decide = lambda _: Say(http(400))
    Sender(kubectl, address_of(kubectl, "natsjetstreamchannel", "orders", "parked")).accepted("parked-1")
    until("it was refused", lambda: bool(flow.place.arrivals), 60)
    aside = Channel("parked", "orders").aside

    makers = [line for line in installation.makers() if line.startswith((f"{namespace} ", "parked "))]
    assert makers == [f"{namespace} plain Channel plain", "parked orders <none> <none>"], makers
    # Without that the page would not end: whoever makes a channel makes it again.
    kubectl("delete", CHANNELS, "--all", "-n", namespace)
    until("it is there again", lambda: bool(kubectl.objects(CHANNELS, namespace)))

    kubectl("delete", "channel.messaging.knative.dev", "plain", "-n", namespace)
    took = installation.remove()
    left = installation.wait_until_nothing_is_left()
    assert await streams(world) == [aside]
    assert "parked-1" in installation.remove_aside("orders", "parked", world.nats().url)
    assert await streams(world) == []
    told(f"uninstalled in {took:.0f} s, pods gone {left:.0f} s later; one aside stream stays, with what is parked")

"""A consumer of ours has taken the place of one of the Go channel's, and that one is still there: what is decided."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.core.channel import binding, consumer, peer
from headrace.core.channel.binding import Binding
from headrace.core.channel.leaving import LeavingTerms
from headrace.core.manifest import manifest
from headrace.core.manifest.consumer_spec import ConsumerTemplate
from headrace.core.nats.action import Action, DeleteConsumer
from tests.support.functions.channels import channel, entry
from tests.support.kube.flapping import GRACE, NOON, PLACE, STREAM, Server

BILLING = "KN_SUB_AAAA1"
THEIRS = peer.Peer(BILLING, {"name": BILLING, "deliver_subject": "x"}, push=True, busy=False, floor=7)
TERMS = LeavingTerms(PLACE, ConsumerTemplate(), (), GRACE, NOON)


def decided(server: Server, theirs: peer.Peer | None) -> Binding:
    rows = consumer.rows(manifest.parse(channel(entry("aaaa-1"))), STREAM)
    terms = replace(TERMS, peers={BILLING: theirs} if theirs else {})
    (found,), leavers = binding.consumers(rows, server.consumers.values(), terms)
    assert leavers == ()
    return found


@pytest.fixture
def server() -> Server:
    """Ours was made, and the process died before the Go channel's was deleted."""
    server = Server({BILLING: THEIRS.config})
    server.carry_out((decided(server, THEIRS),), ())
    server.consumers[BILLING] = THEIRS.config
    return server


@pytest.mark.parametrize(
    ("busy", "actions"),
    [
        pytest.param(False, (DeleteConsumer(STREAM, BILLING),), id="nobody gets anything from it: it goes"),
        pytest.param(True, (), id="its dispatcher is back, and would make it again"),
    ],
)
def test_a_take_over_that_broke_off_is_finished(server: Server, busy: bool, actions: tuple[Action, ...]) -> None:
    found = decided(server, replace(THEIRS, busy=busy))

    assert (found.durable, found.actions) == (f"{BILLING}_pull", actions)


def test_that_it_begins_where_the_go_channels_ended_is_no_drift(server: Server) -> None:
    assert decided(server, None).drift == ""

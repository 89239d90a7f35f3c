"""EventPolicies at a real `receive` and nats-server: 403, and nothing stored; named as Knative's conformance suite is.

Policies are manifests, read as `reconcile` reads them; the security document is mounted. What the operator writes, and
how soon, is for `tests/control_plane`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headrace.core import names
from headrace.core.channel import event_policies
from headrace.core.security.flags import DefaultMode, Flags
from tests.support.functions.functions import Function
from tests.support.http.sending import BINARY, Reply, send
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Channel, Nats
from tests.support.security.issuing import TokenIssuer
from tests.support.security.mounted import Mounted
from tests.support.waiting import until

ISSUER = TokenIssuer()
STRUCTURED = {"content-type": "application/cloudevents+json"}


@dataclass
class Policed:
    """A `receive` with a mount, and its nats-server."""

    function: Function
    nats_url: str
    mount: Mounted

    async def send(
        self, channel: Channel, account: str, event_id: str, encoding: str = "binary", **attributes: str
    ) -> Reply:
        audience = names.audience(channel.namespace, channel.name)
        token = ISSUER.token(now=time.time(), aud=[audience], sub=identity(account))
        event = {"specversion": "1.0", "source": "/shop", "type": "order.created", **attributes, "id": event_id}
        shown = {"authorization": f"Bearer {token}"}
        if encoding == "structured":
            body = json.dumps({**event, "data": {}}).encode()
            return await send(self.function.url + channel.path, body, {**STRUCTURED, **shown})
        headers = {**BINARY, **{f"ce-{name}": value for name, value in event.items()}, **shown}
        return await send(self.function.url + channel.path, b"{}", headers)

    async def obey(self, channel: Channel, *policies: dict[str, Any]) -> None:
        """Mount what these policies say of a channel, and wait until `receive` has read it."""
        parent = {"metadata": {"namespace": channel.namespace, "name": channel.name}}
        observed = {event_policies.POLICIES: {one["metadata"]["name"]: one for one in policies}}
        part = event_policies.applied(parent, observed, Flags(oidc=True)).part
        self.mount.police({f"{channel.namespace}/{channel.name}": part})
        read = f'"revision": {self.mount.document.revision}'

        async def is_read() -> bool:
            return read in self.function.log

        await until("the document is read", is_read, 30)


def identity(account: str) -> str:
    return f"system:serviceaccount:demo:{account}"


def policy(*accounts: str, name: str = "ep", filters: Any = (), ready: bool = True) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "demo", "name": name},
        "spec": {"filters": list(filters)},
        "status": {
            "from": [identity(account) for account in accounts],
            "conditions": [{"type": "Ready", "status": str(ready)}],
        },
    }


@pytest.fixture(scope="module")
def policed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Policed]:
    directory = tmp_path_factory.mktemp("policed")
    server = NatsServer(directory / "nats").start()
    mount = Mounted(directory / "security")
    mount.trust(ISSUER.known())
    with Function("receive", server.url, Path(directory), HEADRACE_SECURITY_DIR=str(mount.directory)) as function:
        yield Policed(function, server.url, mount)
    server.kill()


@pytest.fixture
async def nats(policed: Policed) -> AsyncIterator[Nats]:
    async with Nats(policed.nats_url) as client:
        yield client


@pytest.fixture
async def orders(nats: Nats) -> Channel:
    return await nats.make_channel()


encodings = pytest.mark.parametrize("encoding", ["binary", "structured"])


async def ids(nats: Nats, channel: Channel) -> list[str]:
    return [one.headers["ce-id"] for one in await nats.stored(channel.stream)]


@encodings
async def test_accepts_authorized_request(policed, nats, orders, encoding) -> None:
    await policed.obey(orders, policy("till"))
    assert (await policed.send(orders, "till", "1", encoding)).status == 202
    assert await ids(nats, orders) == ["1"]


@encodings
async def test_rejects_unauthorized_request(policed, nats, orders, encoding) -> None:
    await policed.obey(orders, policy("unknown-identity"))
    reply = await policed.send(orders, "till", "1", encoding)
    assert reply.status == 403
    assert reply.detail == (
        "no EventPolicy of this channel lets 'system:serviceaccount:demo:till' send: "
        "ask those who own the channel's namespace for an EventPolicy"
    )
    assert await ids(nats, orders) == []


@encodings
async def test_only_admits_events_that_pass_the_event_policy_filter(policed, nats, orders, encoding) -> None:
    await policed.obey(orders, policy("one", "two", filters=[{"prefix": {"type": "valid"}}]))
    assert (await policed.send(orders, "one", "1", encoding, type="valid.event.type")).status == 202
    refused = await policed.send(orders, "two", "2", encoding, type="invalid.event.type")
    assert (refused.status, "send this event" in refused.detail) == (403, True)
    assert await ids(nats, orders) == ["1"]


async def test_an_expression_of_cesql_sees_the_attributes(policed, nats, orders) -> None:
    gold = policy("till", filters=[{"cesql": "tier = 'gold' AND amount < 100"}])
    await policed.obey(orders, gold)
    answers = [
        (await policed.send(orders, "till", str(number), tier=tier, amount=amount)).status
        for number, (tier, amount) in enumerate([("gold", "99"), ("gold", "100"), ("silver", "1"), ("gold", "many")])
    ]
    assert answers == [202, 403, 403, 403]


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(policy("till", ready=False), id="not ready"),
        pytest.param(policy("till", filters=[{"cesql": "type = "}]), id="a filter that can't be read"),
    ],
)
async def test_where_policies_cannot_be_read_the_fault_is_ours_and_the_sender_may_try_again(
    policed, nats, orders, one
) -> None:
    await policed.obey(orders, one)
    reply = await policed.send(orders, "till", "1")
    assert (reply.status, "nobody can say who may send to this channel" in reply.detail) == (500, True)
    assert await ids(nats, orders) == []


@pytest.mark.parametrize("mode", list(DefaultMode))
async def test_default_modes(policed, nats, mode) -> None:
    own = await nats.make_channel()
    strange = await nats.make_channel(Channel("shop", f"strange-{mode}"))
    policed.mount.flag(default_mode=mode)
    expected = {
        DefaultMode.ALLOW_ALL: (202, 202),
        DefaultMode.DENY_ALL: (403, 403),
        DefaultMode.ALLOW_SAME_NAMESPACE: (202, 403),
    }[mode]

    async def answered() -> bool:
        answers = [(await policed.send(each, "till", "1")).status for each in (own, strange)]
        return tuple(answers) == expected

    await until("the mode counts", answered, 30)
    policed.mount.flag(default_mode=DefaultMode.ALLOW_ALL)


async def test_nothing_is_let_in_after_an_edit_under_load(policed, nats, orders) -> None:
    """Both ways of an event: whoever may send anything goes the short way, and filters send events the long way."""
    await policed.obey(orders, policy("till", "shop"))
    answers: dict[str, list[tuple[float, int]]] = {"till": [], "shop": []}
    stop = asyncio.Event()

    async def load(account: str) -> None:
        number = 0
        while not stop.is_set():
            number, began = number + 1, time.monotonic()
            answers[account].append((began, (await policed.send(orders, account, f"{account}-{number}")).status))

    senders = [asyncio.create_task(load(account)) for account in ("till", "shop")]
    edits = [policy("shop"), policy("till", "shop", filters=[{"exact": {"type": "other"}}]), policy("till")]
    counted: list[tuple[float, float]] = []
    for edit in edits:
        edited = time.monotonic()
        await policed.obey(orders, edit)
        counted.append((edited, time.monotonic()))
        await asyncio.sleep(0.3)
    stop.set()
    await asyncio.gather(*senders)

    def seen(account: str, after: float, before: float) -> set[int]:
        return {status for began, status in answers[account] if after < began < before}

    begins = [edited for edited, _ in counted[1:]] + [time.monotonic()]
    found = [(seen("till", read, end), seen("shop", read, end)) for (_, read), end in zip(counted, begins, strict=True)]
    assert found == [({403}, {202}), ({403}, {403}), ({202}, {403})]
    stored = await ids(nats, orders)
    assert len(stored) == sum(status == 202 for each in answers.values() for _, status in each)

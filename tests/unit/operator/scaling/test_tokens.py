"""The operator's tokens: when it asks for one, for how long it keeps it, and what it says of a failure."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest

from headrace.core.channel.lease_places import SenderIdentity
from headrace.core.errors import HeadraceError, Refused, Unavailable
from headrace.io.process import clock
from headrace_operator.kube.api import NoRight
from headrace_operator.scaling.tokens import TokenBook, TokenKey, request_body

BILLING = SenderIdentity("shop", "billing-oidc", ("billing",))
NEED = 260.0


def jwt(number: int, **claims: Any) -> str:
    middle = base64.urlsafe_b64encode(json.dumps({"iss": "https://issuer", "n": number, **claims}).encode())
    return f"head.{middle.decode().rstrip('=')}.signature"


class Cluster:
    """An API server's answers to TokenRequests, and a clock."""

    def __init__(self, seconds: float = 3600.0, **claims: Any) -> None:
        self.asked: list[TokenKey] = []
        self.seconds = seconds
        self.claims = claims
        self.trouble: HeadraceError | None = None
        self.now = 1000.0
        self.slow = 0.0

    async def __call__(self, key: TokenKey) -> tuple[str, float]:
        self.asked.append(key)
        await asyncio.sleep(self.slow)
        if self.trouble is not None:
            raise self.trouble
        return jwt(len(self.asked), **self.claims), self.seconds


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster()
    monkeypatch.setattr(clock, "monotonic", lambda: cluster.now)
    return cluster


async def one(book: TokenBook, sender: SenderIdentity = BILLING) -> str:
    (found,) = (await book.of(sender, NEED)).values()
    return found.text


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_all_consumers_of_an_identity_share_one_request(cluster: Cluster) -> None:
    book = TokenBook(cluster)
    found = await asyncio.gather(*(one(book) for _ in range(1000)))
    assert set(found) == {jwt(1)}
    assert cluster.asked == [TokenKey("shop", "billing-oidc", "billing")]


async def test_each_audience_has_a_token_of_its_own(cluster: Cluster) -> None:
    found = await TokenBook(cluster).of(SenderIdentity("shop", "a", ("billing", "dead")), NEED)
    assert {audience: token.text for audience, token in found.items()} == {"billing": jwt(1), "dead": jwt(2)}


async def test_a_token_is_renewed_before_it_could_end_within_a_lease_and_the_old_one_serves_meanwhile(
    cluster: Cluster,
) -> None:
    book = TokenBook(cluster)
    assert await one(book) == jwt(1)
    cluster.now += 0.59 * 3600
    assert await one(book) == jwt(1)
    await settle()
    assert len(cluster.asked) == 1
    cluster.now += 0.17 * 3600
    assert await one(book) == jwt(1)
    await settle()
    assert await one(book) == jwt(2)
    assert len(cluster.asked) == 2


@pytest.mark.parametrize("lifetime", [600.0, 3600.0, 86400.0])
async def test_a_token_that_is_handed_out_outlives_the_lease_whatever_its_lifetime(
    cluster: Cluster, lifetime: float
) -> None:
    book, made = TokenBook(cluster), dict[str, float]()
    cluster.seconds = lifetime
    for _ in range(600):
        found = await one(book)
        made.setdefault(found, cluster.now)
        await settle()
        assert made[found] + lifetime >= cluster.now + NEED
        cluster.now += lifetime / 100
    # Once for each part of the lifetime, and never in a burst.
    assert len(cluster.asked) <= 15


async def test_the_lifetime_is_the_tokens_own_whatever_the_two_clocks_say(cluster: Cluster) -> None:
    cluster.claims, cluster.seconds = {"iat": 5_000, "exp": 5_600}, 9_000.0
    book = TokenBook(cluster)
    assert await one(book) == jwt(1, iat=5_000, exp=5_600)
    cluster.now += 500
    assert await one(book) == jwt(2, iat=5_000, exp=5_600)


async def test_a_refused_token_is_made_anew_once(cluster: Cluster) -> None:
    book = TokenBook(cluster)
    old = await one(book)
    cluster.now += 60
    # Four leases had it, and each reports.
    for _ in range(4):
        book.refused(BILLING, "billing", old)
        assert await one(book) == jwt(2)
    assert len(cluster.asked) == 2


async def test_a_forward_that_calls_every_token_outdated_has_one_made_in_a_minute(cluster: Cluster) -> None:
    book = TokenBook(cluster)
    for _ in range(300):
        book.refused(BILLING, "billing", await one(book))
        cluster.now += 1
    assert len(cluster.asked) == 5


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        pytest.param(Refused("serviceaccounts 'billing-oidc' not found", status=404), "Knative makes", id="missing"),
        pytest.param(
            NoRight("forbidden", "system:serviceaccount:knative-eventing:headrace-operator"),
            "kubectl -n shop create rolebinding headrace-operator-tokens --clusterrole=headrace-operator-tokens "
            "--serviceaccount=knative-eventing:headrace-operator",
            id="no right",
        ),
        pytest.param(Unavailable("no answer"), "no answer", id="away"),
    ],
)
async def test_a_token_that_can_not_be_had_is_told_with_what_to_do_and_asked_for_now_and_then(
    cluster: Cluster, error: HeadraceError, advice: str
) -> None:
    book = TokenBook(cluster)
    cluster.trouble = error
    for _ in range(100):
        with pytest.raises(Unavailable) as told:
            await one(book)
        assert str(told.value).startswith("no token of ServiceAccount shop/billing-oidc for the audience 'billing': ")
        assert advice in str(told.value)
    assert len(cluster.asked) == 1
    cluster.trouble = None
    cluster.now += 5.0
    assert await one(book) == jwt(2)


async def test_while_it_can_not_be_renewed_the_old_one_serves_as_long_as_it_outlives_a_lease(cluster: Cluster) -> None:
    book = TokenBook(cluster)
    await one(book)
    cluster.trouble = Unavailable("no answer")
    for _ in range(30):
        cluster.now += 110
        assert await one(book) == jwt(1)
        await settle()
    cluster.now += 3600 - 30 * 110 - NEED + 1
    with pytest.raises(Unavailable):
        await one(book)


async def test_requests_go_out_at_a_bounded_rate() -> None:
    cluster = Cluster()
    book = TokenBook(cluster, rate=100.0)
    senders = [SenderIdentity("shop", f"sub-{number}", ("billing",)) for number in range(21)]
    began = clock.monotonic()
    await asyncio.gather(*(one(book, sender) for sender in senders))
    assert clock.monotonic() - began >= 0.19
    assert len(cluster.asked) == 21


async def test_memory_is_bounded_and_a_forgotten_token_is_asked_for_again(cluster: Cluster) -> None:
    book = TokenBook(cluster, most_kept=3, rate=1e9)
    for number in range(10):
        await one(book, SenderIdentity("shop", f"sub-{number}", ("billing",)))
    assert len(book._kept) == 3
    await one(book, SenderIdentity("shop", "sub-9", ("billing",)))
    await one(book, SenderIdentity("shop", "sub-0", ("billing",)))
    assert len(cluster.asked) == 11


@pytest.mark.parametrize("audience", ["https://kubernetes.default.svc", "https://kubernetes.default.svc.cluster.local"])
async def test_no_token_is_asked_for_that_is_good_at_the_api_server(cluster: Cluster, audience: str) -> None:
    with pytest.raises(Unavailable, match="is the API server's own"):
        await one(TokenBook(cluster), SenderIdentity("shop", "a", (audience,)))
    assert cluster.asked == []


async def test_a_token_for_its_own_issuer_is_not_handed_out(cluster: Cluster) -> None:
    with pytest.raises(Unavailable, match="is the API server's own"):
        await one(TokenBook(cluster), SenderIdentity("shop", "a", ("https://issuer",)))


@pytest.mark.parametrize("text", ["", "a b", "a\r\nb", "x" * 20_000])
async def test_what_can_not_stand_in_a_header_is_no_token(text: str) -> None:
    async def make(_: TokenKey) -> tuple[str, float]:
        return text, 3600.0

    with pytest.raises(Unavailable, match="is good for nothing"):
        await one(TokenBook(make))


async def test_a_lease_that_is_given_up_does_not_take_the_request_of_others_along(cluster: Cluster) -> None:
    cluster.slow = 0.01
    book = TokenBook(cluster)
    first, second = asyncio.create_task(one(book)), asyncio.create_task(one(book))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == jwt(1)


def test_the_request_is_for_one_audience() -> None:
    spec: Mapping[str, Any] = request_body("billing")["spec"]
    assert spec == {"audiences": ["billing"], "expirationSeconds": 3600}

"""The keys of the token issuer, read from the API server: what counts, for how long, and what is said of a trouble."""

from __future__ import annotations

from typing import Any, cast

import pytest

from headrace.core.errors import HeadraceError, Unavailable
from headrace.core.security.issuer import Issuer
from headrace.io.process import clock
from headrace_operator.kube.api import KubeApi
from headrace_operator.kube.issuer_keys import API_SERVER, DISCOVERY, KEYS, OVERLAP_SECONDS, IssuerKeys

URL = "https://kubernetes.default.svc.cluster.local"
WANTED = (API_SERVER, "")


def key(kid: str) -> dict[str, str]:
    return {"kty": "RSA", "kid": kid, "alg": "RS256", "use": "sig", "n": "AAAA", "e": "AQAB"}


class ApiServer:
    """An API server that publishes keys, or fails."""

    def __init__(self, *kids: str) -> None:
        self.kids = kids
        self.url = URL
        self.failure: HeadraceError | None = None
        self.served = True
        self.asked: list[str] = []
        self.told = 0

    async def get(self, path: str) -> dict[str, Any] | None:
        self.asked.append(path)
        if self.failure is not None:
            raise self.failure
        if not self.served:
            return None
        if path == DISCOVERY:
            # The address by which others reach it: nobody of ours may have to be there.
            keys = "https://192.0.2.1:6443/openid/v1/jwks"
            return {"issuer": self.url, "jwks_uri": keys, "id_token_signing_alg_values_supported": ["RS256"]}
        return {"keys": [key(kid) for kid in self.kids]}

    def keys(self) -> IssuerKeys:
        def tell() -> None:
            self.told += 1

        return IssuerKeys(cast(KubeApi, self), tell)


def kids(issuer: Issuer | None) -> list[str]:
    assert issuer is not None
    return [one["kid"] for one in issuer.keys]


@pytest.fixture
def passing(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time; the test moves it."""
    now = [100.0]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    return now


async def test_the_api_server_is_asked_at_its_own_address() -> None:
    server = ApiServer("a")
    keys = server.keys()
    await keys.look(WANTED)
    assert keys.current == Issuer(URL, ("RS256",), (key("a"),))
    assert server.asked == [DISCOVERY, KEYS]


async def test_where_no_tokens_are_asked_for_nobody_is_asked_and_nothing_is_known() -> None:
    server = ApiServer("a")
    keys = server.keys()
    await keys.look(None)
    assert (keys.current, server.asked) == (None, [])
    await keys.look(WANTED)
    await keys.look(None)
    assert (keys.current, server.told) == (None, 2)


async def test_who_listens_hears_of_changes_only() -> None:
    server = ApiServer("a")
    keys = server.keys()
    for _ in range(3):
        await keys.look(WANTED)
    assert server.told == 1
    server.kids = ("a", "b")
    await keys.look(WANTED)
    assert (server.told, kids(keys.current)) == (2, ["a", "b"])


async def test_a_key_that_is_published_no_more_counts_for_another_hour(passing) -> None:
    server = ApiServer("a")
    keys = server.keys()
    await keys.look(WANTED)
    server.kids = ("b",)
    passing[0] += OVERLAP_SECONDS - 1
    await keys.look(WANTED)
    assert kids(keys.current) == ["a", "b"]
    passing[0] += 1
    await keys.look(WANTED)
    assert kids(keys.current) == ["b"]


async def test_api_servers_that_disagree_in_a_roll_out_change_nothing(passing) -> None:
    server = ApiServer("a", "b")
    keys = server.keys()
    await keys.look(WANTED)
    for one in (("a",), ("b",), ("a", "b")) * 3:
        server.kids = one
        passing[0] += 10
        await keys.look(WANTED)
        assert kids(keys.current) == ["a", "b"]
    assert server.told == 1


async def test_of_another_issuer_no_former_key_counts() -> None:
    server = ApiServer("a")
    keys = server.keys()
    await keys.look(WANTED)
    server.url, server.kids = "https://another.example", ("b",)
    await keys.look(WANTED)
    assert kids(keys.current) == ["b"]


async def test_the_last_good_keys_count_while_the_api_server_is_away() -> None:
    server = ApiServer("a")
    keys = server.keys()
    await keys.look(WANTED)
    server.failure = Unavailable("no answer")
    await keys.look(WANTED)
    assert kids(keys.current) == ["a"]
    assert "no answer" in keys.problem
    server.failure = None
    await keys.look(WANTED)
    assert (keys.problem, server.told) == ("", 3)


async def test_an_api_server_without_discovery_is_told_with_what_to_do() -> None:
    server = ApiServer()
    server.served = False
    keys = server.keys()
    await keys.look(WANTED)
    assert "--service-account-issuer" in keys.problem


async def test_another_base_than_https_is_no_issuer() -> None:
    keys = ApiServer().keys()
    await keys.look(("http://plain.example", ""))
    assert "'http://plain.example'" in keys.problem
    assert "https" in keys.problem

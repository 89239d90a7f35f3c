"""The keys of an issuer that is not the API server, by https."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from aiohttp import web

from headrace_operator.kube.api import KubeApi
from headrace_operator.kube.issuer_keys import IssuerKeys
from tests.support.http.authorities import as_openssl_makes_it
from tests.support.security.issuing import TokenIssuer

DISCOVERY, KEYS = "/id/1/.well-known/openid-configuration", "/keys"


@dataclass
class Elsewhere:
    """An https server with an issuer below /id/1; `answers` replace what it says, by path."""

    base: str
    trust: str
    issuer: TokenIssuer
    answers: dict[str, Any] = field(default_factory=dict)
    asked: list[dict[str, str]] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(dict(request.headers))
        found = self.answers.get(request.path)
        if found is None and request.path == DISCOVERY:
            return web.json_response({"issuer": self.issuer.url, "jwks_uri": self.base.removesuffix("/id/1") + KEYS})
        if found is None and request.path == KEYS:
            return web.json_response(self.issuer.jwks(), content_type="application/jwk-set+json")
        return found if found is not None else web.Response(status=404)


@pytest.fixture
async def elsewhere() -> AsyncIterator[Elsewhere]:
    authority = as_openssl_makes_it()
    app = web.Application()
    runner = web.AppRunner(app, handler_cancellation=True)
    found = Elsewhere("", authority.pem.decode(), TokenIssuer(url="https://issuer.example"))
    app.router.add_get("/{path:.*}", found.handle)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=authority.issue("127.0.0.1", "localhost").serving())
    await site.start()
    found.base = f"https://127.0.0.1:{runner.addresses[0][1]}/id/1"
    yield found
    await runner.cleanup()


def keys() -> IssuerKeys:
    return IssuerKeys(cast(KubeApi, None), lambda: None)


async def test_another_issuer_is_asked_by_https_without_credentials(elsewhere: Elsewhere) -> None:
    found = keys()
    await found.look((elsewhere.base, elsewhere.trust))
    assert found.problem == ""
    assert found.current is not None
    assert (found.current.url, found.current.algorithms) == ("https://issuer.example", ("RS256",))
    assert [key["kid"] for key in found.current.keys] == ["one"]
    assert not any("Authorization" in headers for headers in elsewhere.asked)


async def test_a_slash_at_the_end_of_the_base_is_none_too_many(elsewhere: Elsewhere) -> None:
    found = keys()
    await found.look((elsewhere.base + "/", elsewhere.trust))
    assert found.problem == ""


async def test_an_issuer_whose_certificate_nobody_has_signed_is_not_believed(elsewhere: Elsewhere) -> None:
    found = keys()
    await found.look((elsewhere.base, ""))
    assert found.current is None
    assert "certificate" in found.problem
    assert elsewhere.asked == []


@pytest.mark.parametrize(
    ("path", "said", "why"),
    [
        pytest.param(DISCOVERY, web.Response(status=500), "HTTP 500", id="broken"),
        pytest.param(
            DISCOVERY, web.Response(status=302, headers={"location": "https://thief.example"}), "302", id="elsewhere"
        ),
        pytest.param(DISCOVERY, web.Response(text="<html>"), "not JSON", id="no JSON"),
        pytest.param(DISCOVERY, web.Response(text="[" * 100_000), "not JSON", id="nested without end"),
        pytest.param(DISCOVERY, web.Response(body=b" " * (1 << 21)), "more than", id="endless"),
        pytest.param(DISCOVERY, web.json_response({"issuer": "x"}), "https", id="issuer is no URL"),
        pytest.param(KEYS, web.json_response({"keys": []}), "no public key", id="no keys"),
        pytest.param(KEYS, web.Response(status=404), "HTTP 404", id="keys are not there"),
    ],
)
async def test_a_faulty_issuer_is_told_of_and_has_no_keys(elsewhere: Elsewhere, path, said, why) -> None:
    elsewhere.answers[path] = said
    found = keys()
    await found.look((elsewhere.base, elsewhere.trust))
    assert found.current is None
    assert why in found.problem

"""TLS to subscribers: who is trusted, whose name is demanded, and the words when it fails."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime, timedelta

import pytest
import trustme

from headrace.core.http import HttpAnswer
from tests.support.http.http_clients import MIB
from tests.support.http.raw_server import ACCEPTED, Peer, answering, serving
from tests.support.loop_clock import exactly
from tests.support.waiting import until

YESTERDAY = datetime.now(UTC) - timedelta(days=1)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def trusted(authority: trustme.CA) -> str:
    """What a destination's CACerts hold."""
    return authority.cert_pem.bytes().decode()


def presenting(certificate: trustme.LeafCert, names: list[str | None] | None = None) -> ssl.SSLContext:
    """A server's side; it notes the names that clients ask for."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate.configure_cert(context)
    if names is not None:
        context.sni_callback = lambda _, name, __: names.append(name)
    return context


@pytest.fixture
def local(authority: trustme.CA) -> ssl.SSLContext:
    return presenting(authority.issue_cert("localhost", "127.0.0.1"))


async def test_a_server_of_a_trusted_authority_is_posted_to(either, local, trusted):
    async with serving(answering(ACCEPTED), tls=local) as server:
        for host in ("127.0.0.1", "localhost"):
            url = f"https://{host}:{server.port}/orders"
            assert (await either.post(url, (), b"12345", ca_certs=trusted)).status == 202
    assert [(request.target, request.body) for request in server.requests] == [(b"/orders", b"12345")] * 2
    assert b"Host: localhost:%d" % server.port in server.requests[1].lines


async def test_many_posts_take_one_connection(either, local, trusted):
    async with serving(answering(ACCEPTED), tls=local) as server:
        for _ in range(100):
            assert (await either.post(server.url, ca_certs=trusted)).status == 202
        assert server.connections == 1


async def test_large_bodies_go_both_ways(either, local, trusted):
    body = bytes(range(256)) * (MIB // 256)
    said = b"HTTP/1.1 200 OK\r\nce-specversion: 1.0\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
    async with serving(answering(said), tls=local) as server:
        answer = await either.post(server.url, (), body, ca_certs=trusted)
    assert answer.body == body
    assert server.requests[0].body == body


async def test_the_end_of_the_connection_ends_a_body(either, local, trusted):
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(b"HTTP/1.1 200 OK\r\n\r\nhello")

    async with serving(script, tls=local) as server:
        assert (await either.post(server.url, ca_certs=trusted)).body == b"hello"


async def test_the_server_is_asked_for_by_its_name_but_not_by_an_address(client, authority, trusted):
    names: list[str | None] = []
    context = presenting(authority.issue_cert("localhost", "127.0.0.1"), names)
    async with serving(answering(ACCEPTED), tls=context) as server:
        for host in ("localhost", "127.0.0.1"):
            await client.post(f"https://{host}:{server.port}/", ca_certs=trusted)
    assert names == ["localhost", None]


async def test_a_server_of_an_unknown_authority_is_refused(either, local):
    async with serving(answering(ACCEPTED), tls=local) as server:
        answer = await either.post(server.url)
        assert answer == HttpAnswer(None, error=answer.error)
        assert "unable to get local issuer certificate" in answer.error
        assert server.requests == []


async def test_a_connection_made_with_one_trust_serves_no_destination_with_another(client, local, trusted):
    async with serving(answering(ACCEPTED), tls=local) as server:
        assert (await client.post(server.url, ca_certs=trusted)).status == 202
        assert (await client.post(server.url)).status is None
        assert (await client.post(server.url, ca_certs=trustme.CA().cert_pem.bytes().decode())).status is None
        assert len(server.requests) == 1


async def test_an_edit_of_the_trust_bundles_counts_from_the_next_connection_on(client, local, trusted):
    async with serving(answering(ACCEPTED), tls=local) as server:
        assert (await client.post(server.url)).status is None
        client.trust(f"a remark\n{trusted}\n-----BEGIN CERTIFICATE-----\nnone\n-----END CERTIFICATE-----")
        assert (await client.post(server.url)).status == 202
        client.trust("")
        assert (await client.post(server.url)).status == 202, "the connection is open"
        assert server.connections == 1
    async with serving(answering(ACCEPTED), tls=local) as server:
        assert (await client.post(server.url)).status is None


async def test_a_certificate_for_another_name_is_refused(client, authority, trusted):
    async with serving(answering(ACCEPTED), tls=presenting(authority.issue_cert("other.example"))) as server:
        by_name = await client.post(f"https://localhost:{server.port}/", ca_certs=trusted)
        by_address = await client.post(server.url, ca_certs=trusted)
    assert by_name == HttpAnswer(
        None,
        error=f"TLS with localhost:{server.port} failed: Hostname mismatch, certificate is not valid for 'localhost'.",
    )
    assert by_address == HttpAnswer(
        None,
        error=f"TLS with 127.0.0.1:{server.port} failed: "
        "IP address mismatch, certificate is not valid for '127.0.0.1'.",
    )


async def test_an_expired_certificate_is_refused(client, authority, trusted):
    certificate = authority.issue_cert("127.0.0.1", not_before=YESTERDAY - timedelta(days=1), not_after=YESTERDAY)
    async with serving(answering(ACCEPTED), tls=presenting(certificate)) as server:
        answer = await client.post(server.url, ca_certs=trusted)
    assert answer.error == f"TLS with 127.0.0.1:{server.port} failed: certificate has expired"


async def test_a_server_without_tls_is_an_error_that_says_so(client, trusted):
    async def script(peer: Peer) -> None:
        await peer.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await peer.gone()

    async with serving(script) as server:
        answer = await client.post(f"https://127.0.0.1:{server.port}/", ca_certs=trusted)
    assert answer == HttpAnswer(None, error=f"TLS with 127.0.0.1:{server.port} failed: WRONG_VERSION_NUMBER")


@pytest.mark.parametrize("ending", ["closed", "reset"])
async def test_a_server_that_hangs_up_in_the_handshake_is_an_error(either, trusted, ending):
    async def script(peer: Peer) -> None:
        if ending == "reset":
            peer.reset()

    async with serving(script) as server:
        answer = await either.post(f"https://127.0.0.1:{server.port}/", ca_certs=trusted)
    assert answer == HttpAnswer(None, error=answer.error)
    assert answer.error


async def test_a_handshake_that_takes_too_long_has_no_answer(either, trusted):
    async def script(peer: Peer) -> None:
        await peer.gone()

    async with serving(script) as server:
        posting = either.post(f"https://127.0.0.1:{server.port}/", ca_certs=trusted, seconds=0.3)
        assert await exactly(0.3, posting) == HttpAnswer(None, error="no answer within 0.3 s")
        await until("it is closed", lambda: server.open == 0)


@pytest.mark.parametrize("ca_certs", ["nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
async def test_ca_certs_that_are_none_are_an_error_that_says_so(client, local, ca_certs):
    async with serving(answering(ACCEPTED), tls=local) as server:
        answer = await client.post(server.url, ca_certs=ca_certs)
    assert answer == HttpAnswer(None, error=answer.error)
    assert answer.error.startswith("CACerts can't be read (")
    assert server.connections == 0


async def test_closing_the_client_leaves_no_connection_open(client, local, trusted):
    async def script(peer: Peer) -> None:
        if (await peer.request()).target == b"/quick":
            await peer.say(ACCEPTED)
        await peer.gone()

    async with serving(script, tls=local) as server:
        waiting = asyncio.ensure_future(client.post(server.url, ca_certs=trusted))
        await client.post(f"{server.url}/quick", ca_certs=trusted)
        await until("both are under way", lambda: server.connections == 2)
        await client.close()
        assert (await waiting).status is None
        await until("all are closed", lambda: server.open == 0)

"""Whose certificates our clients take; tests/contract/io/test_trust.py has each of the clients take them."""

from __future__ import annotations

import ssl

import pytest

from headrace.core import trust
from headrace.io.process import tls
from tests.support.http.authorities import REFUSED, TAKEN, as_openssl_makes_it, by_the_book


def shakes_hands(client: ssl.SSLContext, server: ssl.SSLContext, host: str) -> bool:
    """A whole handshake in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(to_client, to_server, server_hostname=host)
    other = server.wrap_bio(to_server, to_client, server_side=True)
    done = set[ssl.SSLObject]()
    while len(done) < 2:
        for side in (one, other):
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError:
                return False
    return True


@pytest.mark.parametrize("name", [*TAKEN, *REFUSED])
def test_what_go_takes_is_taken_and_what_it_refuses_is_refused(name):
    found = (TAKEN | REFUSED)[name]()
    assert shakes_hands(trust.context(found.authorities), found.server.serving(), "127.0.0.1") is (name in TAKEN)


@pytest.mark.parametrize("make", [trust.context, tls.of_system])
def test_no_context_is_as_strict_as_those_that_python_makes_since_3_13(make):
    context = make(by_the_book().pem)
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert context.verify_flags & ssl.VERIFY_X509_PARTIAL_CHAIN
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_without_authorities_nobody_is_trusted():
    assert not shakes_hands(trust.context(), as_openssl_makes_it().issue("localhost").serving(), "localhost")


@pytest.mark.parametrize(
    "nothing",
    [
        pytest.param("nonsense", id="no PEM"),
        pytest.param(as_openssl_makes_it().itself.key_pem, id="a key"),
        pytest.param("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", id="no certificate in it"),
        pytest.param("-----BEGIN CERTIFICATE-----\nü\n-----END CERTIFICATE-----\n", id="letters that PEM has not"),
        pytest.param(b"\xff\xfe", id="no text"),
        pytest.param("\udcff", id="what was no text when it was read"),
    ],
)
def test_authorities_that_are_none_are_an_error(nothing):
    with pytest.raises((ssl.SSLError, ValueError)):
        trust.context(nothing)


def test_the_system_is_trusted_beside_those_that_are_given(tmp_path, monkeypatch):
    system, given, host = as_openssl_makes_it(), as_openssl_makes_it(), "localhost"
    (tmp_path / "system.crt").write_bytes(system.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "system.crt"))
    before = tls.system_stamps()
    both = tls.of_system(given.pem)
    assert all(shakes_hands(both, one.issue(host).serving(), host) for one in (system, given))
    (tmp_path / "system.crt").write_bytes(given.pem + system.pem)
    assert tls.system_stamps() != before


def test_a_bundle_of_the_system_with_a_broken_certificate_is_taken_without_it(tmp_path, monkeypatch):
    spoilt = TAKEN["beside a broken one"]()
    (tmp_path / "system.crt").write_bytes(spoilt.authorities)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "system.crt"))
    assert shakes_hands(tls.of_system(), spoilt.server.serving(), "localhost")

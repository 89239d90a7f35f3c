"""The ConfigMaps of the proposal and of the Go channel, read as they are."""

from __future__ import annotations

import base64

import pytest

from headrace.core.errors import Misconfigured
from headrace.core.installation.config_maps import PEER_URL, NatsConfig, read_nats
from headrace.core.installation.secret_files import SecretFile

PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
# As the founding document shows it, with nothing filled in.
PROPOSED = """
url: ""                         # the URL to the JetStream-enabled NATS server
auth:
    credentialFile:
        secret:
            key: ""
            secretName: ""
tls:
    secretName: ""
"""


def proposed(text: str) -> NatsConfig:
    found = read_nats({"eventing-jetstream": text})
    assert found is not None
    return found


def peers(text: str) -> NatsConfig:
    found = read_nats({"eventing-nats": text})
    assert found is not None
    return found


def test_the_proposals_page_with_nothing_filled_in_says_nothing():
    assert proposed(PROPOSED) == NatsConfig()


def test_a_config_map_without_either_key_says_nothing():
    assert read_nats({"other": "url: x"}) is None


@pytest.mark.parametrize(
    ("text", "files"),
    [
        pytest.param(
            "auth: {credentialFile: {secret: {secretName: s}}}",
            (SecretFile("s", "nats.creds", "nats.creds"),),
            id="credentials, usual key",
        ),
        pytest.param(
            "auth: {credentialFile: {secret: {name: s, key: my.creds}}}",
            (SecretFile("s", "my.creds", "nats.creds"),),
            id="credentials as the Go channel names them",
        ),
        pytest.param(
            "auth: {usernamePassword: {secret: {secretName: s, usernameKey: u}}}",
            (SecretFile("s", "u", "username"), SecretFile("s", "password", "password")),
            id="user and password",
        ),
        pytest.param("auth: {token: {secret: {secretName: s}}}", (SecretFile("s", "token", "token"),), id="token"),
        pytest.param(
            "auth: {nKey: {secret: {secretName: s}}}", (SecretFile("s", "nats.creds", "nkey.seed"),), id="nkey"
        ),
        pytest.param(
            "tls: {secretName: t}",
            (
                SecretFile("t", "tls.crt", "tls.crt", optional=True),
                SecretFile("t", "tls.key", "tls.key", optional=True),
                SecretFile("t", "ca.crt", "ca.crt", optional=True),
            ),
            id="one TLS Secret, which may have the CA alone",
        ),
        pytest.param(
            "auth: {tls: {secret: {name: t}}}",
            (
                SecretFile("t", "tls.crt", "tls.crt"),
                SecretFile("t", "tls.key", "tls.key"),
                SecretFile("t", "ca.crt", "ca.crt", optional=True),
            ),
            id="mutual TLS of the Go channel",
        ),
        pytest.param("tls: {secret: {name: ca}}", (SecretFile("ca", "ca.crt", "ca.crt"),), id="the CA alone"),
        pytest.param(
            "{auth: {tls: {secret: {name: t}}}, tls: {secret: {name: ca, key: root}}}",
            (
                SecretFile("t", "tls.crt", "tls.crt"),
                SecretFile("t", "tls.key", "tls.key"),
                SecretFile("ca", "root", "ca.crt"),
            ),
            id="a CA of its own wins over that of the TLS Secret",
        ),
        pytest.param(
            "{auth: {credentialFile: {secret: {name: s}}, tls: {secret: {name: t}}}}",
            (
                SecretFile("s", "nats.creds", "nats.creds"),
                SecretFile("t", "tls.crt", "tls.crt"),
                SecretFile("t", "tls.key", "tls.key"),
                SecretFile("t", "ca.crt", "ca.crt", optional=True),
            ),
            id="credentials over mutual TLS",
        ),
    ],
)
def test_which_keys_of_which_secrets_are_mounted_as_what(text: str, files: tuple[SecretFile, ...]):
    assert peers(text).secrets == files
    assert proposed(text).secrets == files


def test_the_go_channels_address_when_its_config_map_has_none():
    assert peers("connOpts: {}").url == PEER_URL
    assert proposed("tls: {}").url == ""


@pytest.mark.parametrize("bundle", [base64.b64encode(PEM.encode()).decode(), PEM], ids=["base64", "as it is"])
def test_a_bundle_of_cas_is_pem_in_the_end(bundle: str):
    text = "tls:\n  caBundle: |\n" + "\n".join(f"    {line}" for line in bundle.splitlines())
    assert proposed(text).ca_bundle.strip() == PEM.strip()


def test_with_a_bundle_no_secret_is_asked_for_a_ca():
    found = peers(
        f"{{tls: {{caBundle: {base64.b64encode(PEM.encode()).decode()}}}, auth: {{tls: {{secret: {{name: t}}}}}}}}"
    )
    assert [each.file for each in found.secrets] == ["tls.crt", "tls.key"]


@pytest.mark.parametrize("option", ["reconnectWait", "reconnectWaitMilliseconds", "maxReconnects"])
def test_reconnect_options_are_read_and_not_obeyed_however_they_are_spelt(option: str):
    (remark,) = peers(f"connOpts: {{{option}: 1000}}").remarks
    assert remark.startswith(f"ConfigMap config-nats, key eventing-nats: connOpts.{option} is not obeyed: ")


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ("urls: nats://a", "urls is unknown and not obeyed: check its spelling"),
        ("{auth: {credentialsFile: {}}}", "auth.credentialsFile is unknown and not obeyed: check its spelling"),
        ("{auth: {token: {secret: {nam: x}}}}", "auth.token.secret.nam is unknown and not obeyed: check its spelling"),
        ("url: nats://me:s3cret@a", "url names a user or password"),
    ],
)
def test_what_is_unknown_or_unwise_is_told_and_stops_nothing(text: str, remark: str):
    (found,) = peers(text).remarks
    assert remark in found
    assert "s3cret" not in found


def test_beside_the_proposals_key_the_go_channels_is_not_read():
    found = read_nats({"eventing-jetstream": "url: nats://a", "eventing-nats": "url: nats://b"})
    assert found is not None
    assert found.url == "nats://a"
    assert "take one of the two out" in found.remarks[0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("url: 5", "url is 5: it should be text"),
        ("url: http://a", "url has 'http://a': write nats://host:port or tls://host:port, several with commas"),
        ("tls: here", "tls is 'here': it should be an object"),
        ("url: [a", "it is not YAML (line 1, column 8)"),
        ("just words", 'it is "just words": write an object'),
        ("tls: {caBundle: nonsense}", "tls.caBundle holds no certificate: give PEM, or base64 of it"),
        ("auth: {token: {secret: {key: k}}}", "auth.token.secret names no Secret: give its secretName"),
        ("tls: {secret: {key: k}}", "tls.secret names no Secret: give its secretName"),
        (
            "auth: {token: {secret: {name: a}}, nKey: {secret: {name: b}}}",
            "auth has token and nKey: keep one of them",
        ),
    ],
)
def test_what_is_wrong_is_told_with_config_map_key_field_and_value(text: str, says: str):
    with pytest.raises(Misconfigured) as wrong:
        read_nats({"eventing-nats": text}, name="shop-nats")
    assert str(wrong.value).startswith("ConfigMap shop-nats, key eventing-nats: ")
    assert says in str(wrong.value)


def test_a_password_in_an_address_that_can_not_be_is_not_shown():
    with pytest.raises(Misconfigured) as wrong:
        read_nats({"eventing-nats": "url: http://me:s3cret@a"})
    assert "s3cret" not in str(wrong.value)

"""Which Secrets the mounted ConfigMap names, and which of them are not mounted."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.installation.nats_settings import NatsSettings
from headrace.core.installation.secret_files import SecretFile
from headrace.io.process.secret_names import SecretNamesReader
from tests.support.kube.mounts import Mount

PEERS = "auth: {credentialFile: {secret: {name: user, key: my.creds}}, tls: {secret: {name: client}}}"
CREDS = SecretFile("user", "my.creds", "nats.creds")
CERTIFICATE, KEY = SecretFile("client", "tls.crt", "tls.crt"), SecretFile("client", "tls.key", "tls.key")
CA = SecretFile("client", "ca.crt", "ca.crt", optional=True)


@pytest.fixture
def config(tmp_path: Path) -> Mount:
    return Mount(tmp_path / "config", **{"eventing-nats": PEERS})


@pytest.fixture
def named(config: Mount, tmp_path: Path) -> SecretNamesReader:
    given = {"config_dir": config.path, "config_name": "config-nats", "credentials_dir": str(tmp_path / "credentials")}
    return SecretNamesReader(NatsSettings.model_validate(given))


def test_what_is_named_and_not_mounted_is_missing_but_for_what_may_be(named: SecretNamesReader) -> None:
    found = named.now("as the client says")

    assert found.secrets == (CREDS, CERTIFICATE, KEY, CA)
    assert found.missing == (CREDS, CERTIFICATE, KEY)
    assert (found.config_map, found.problem) == ("config-nats", "as the client says")


@pytest.mark.parametrize("level", ["namespace", "cluster", "cluster-function"])
def test_what_is_mounted_at_any_level_is_not_missing(named: SecretNamesReader, tmp_path: Path, level: str) -> None:
    Mount(tmp_path / "credentials" / level, nats__creds="x")

    assert named.now().missing == (CERTIFICATE, KEY)


def test_an_edit_counts_from_the_next_look_on_and_a_broken_one_never(named: SecretNamesReader, config: Mount) -> None:
    named.now()
    config.swap(**{"eventing-nats": "auth: [half"})
    assert named.now().secrets == (CREDS, CERTIFICATE, KEY, CA)
    config.swap(**{"eventing-jetstream": "auth: {token: {secret: {secretName: t}}}"})
    assert named.now().secrets == (SecretFile("t", "token", "token"),)
    config.swap()
    assert named.now().secrets == ()


def test_where_nothing_is_mounted_nothing_is_named() -> None:
    assert SecretNamesReader(NatsSettings()).now().secrets == ()

"""How a program of ours reaches NATS, as a value: `headrace.io` reads the files and variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, SecretStr, model_validator

from headrace.core.installation.secret_files import INBOX_PREFIX
from headrace.core.installation.setting_types import Settings

if TYPE_CHECKING:
    # It brings YAML, which most processes have no need of.
    from headrace.core.installation.config_maps import NatsConfig

_IDENTITY = ("creds_file", "nkey_seed_file", "user", "password", "token")


class NatsSettings(Settings):
    """How to reach NATS. Files are read again at each connect, so rotated secrets take effect by themselves; what is in
    the mounted directories is looked at between connects, too."""

    url: str = Field("nats://127.0.0.1:4222", alias="NATS_URL", description="servers, comma separated")
    creds_file: str | None = Field(None, alias="NATS_CREDS_FILE", description="credentials file (JWT and nkey seed)")
    nkey_seed_file: str | None = Field(None, alias="NATS_NKEY_SEED_FILE", description="nkey seed file")
    user: str | None = Field(None, alias="NATS_USER", description="user name, with `NATS_PASSWORD`")
    password: SecretStr | None = Field(None, alias="NATS_PASSWORD", description="password")
    token: SecretStr | None = Field(None, alias="NATS_TOKEN", description="authentication token")
    tls_ca_file: str | None = Field(None, alias="NATS_TLS_CA_FILE", description="PEM file of the CA to trust")
    tls_cert_file: str | None = Field(None, alias="NATS_TLS_CERT_FILE", description="client certificate, PEM")
    tls_key_file: str | None = Field(None, alias="NATS_TLS_KEY_FILE", description="its key, PEM")
    tls_ca: str | None = Field(None, alias="NATS_TLS_CA", description="PEM of a CA to trust, in place of a file")
    tls_first: bool = Field(False, alias="NATS_TLS_FIRST", description="TLS before INFO (handshake_first)")
    inbox_prefix: Annotated[str, Field(pattern=INBOX_PREFIX)] = Field(
        "_INBOX", alias="NATS_INBOX_PREFIX", description="where answers come, so that permissions can keep users apart"
    )
    function_inbox_prefix: Annotated[str, Field(pattern=INBOX_PREFIX)] | None = Field(
        None,
        alias="NATS_FUNCTION_INBOX_PREFIX",
        description="the same, while the credentials in use are this function's alone (folders `…-function` below)",
    )
    config_dir: str | None = Field(
        None,
        alias="NATS_CONFIG_DIR",
        description="folder where the ConfigMaps that say how NATS is reached are mounted: `named` has the one that "
        "`NATS_CONFIG_NAME` names, `proposed` the proposal's `config-jetstream`, `defaults` "
        "`config-ch-jetstream-defaults`; or the folder holds a single one. The ConfigMap that counts "
        "(docs/install.md) wins over the variables, and an edit takes effect within seconds",
    )
    config_name: str | None = Field(
        None,
        alias="NATS_CONFIG_NAME",
        description="name of the ConfigMap in the folder `named`",
    )
    credentials_dir: str | None = Field(
        None,
        alias="NATS_CREDENTIALS_DIR",
        description="Secrets, mounted, in folders `channel-function`, `channel`, `namespace`, `cluster-function`, "
        "`cluster`: the first that has something counts. They win over the variables, and a rotation takes effect "
        "within seconds",
    )

    @model_validator(mode="after")
    def _one_identity(self) -> NatsSettings:
        given = [
            name
            for name, value in (
                ("NATS_CREDS_FILE", self.creds_file),
                ("NATS_NKEY_SEED_FILE", self.nkey_seed_file),
                ("NATS_USER", self.user),
                ("NATS_TOKEN", self.token),
            )
            if value
        ]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} are set: give one way to authenticate")
        if bool(self.tls_cert_file) != bool(self.tls_key_file):
            raise ValueError("NATS_TLS_CERT_FILE and NATS_TLS_KEY_FILE go together: set both or neither")
        if self.user and self.password is None:
            raise ValueError("NATS_USER is set without NATS_PASSWORD: set both")
        return self

    def overridden(self, config: NatsConfig | None, secrets: Mapping[str, Any]) -> NatsSettings:
        """With what is mounted.

        Args:
            config: of the ConfigMap, if there is one.
            secrets: as `headrace.core.installation.secret_files.settings` gives them; an identity among them replaces
                ours whole.
        """
        update: dict[str, Any] = {}
        if config is not None:
            update = {"url": config.url or self.url, "tls_first": config.tls_first or self.tls_first}
            if config.ca_bundle:
                update |= {"tls_ca": config.ca_bundle, "tls_ca_file": None}
        if secrets.keys() & set(_IDENTITY):
            update |= dict.fromkeys(_IDENTITY)
        return self.model_copy(update=update | dict(secrets))

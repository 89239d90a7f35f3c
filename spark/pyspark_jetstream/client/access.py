"""Where the servers are and who we are to them: a value that says where each secret is found, and holds none.

Spark's tasks get it pickled. They look at files and environment variables when they make a connection, on the machine
that makes it. So a rotated file takes effect, and no plan or log can show a secret.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.core import trust
from headrace.core.errors import Misconfigured
from headrace.core.nats.nats_wire import Credentials, Server, read_credentials, read_servers, signed, user_or_token

API_PREFIX = "$JS.API"


@dataclass(frozen=True, slots=True)
class Secret:
    """The place of a secret: a file, or a variable of the environment.

    Attributes:
        option: the option that named it, for errors.
    """

    option: str
    file: str = ""
    variable: str = ""

    def load(self) -> str:
        """Raises:
        Misconfigured: this machine does not have it.
        """
        if self.file:
            return _read_file(self.file, self.option).strip()
        value = os.environ.get(self.variable, "")
        if not value:
            raise Misconfigured(
                f"{self.option} names the environment variable {self.variable!r}, which is not set on this machine: "
                "set it for the driver and for the executors (spark.executorEnv)",
                field=self.option,
            )
        return value


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach NATS.

    Attributes:
        servers: URLs, comma separated; a Secret if they are in an environment variable that holds a password.
        creds_file, nkey_seed_file, tls_ca_file, tls_cert_file, tls_key_file: paths, empty for none.
        user: with `password`; empty for none.
        tls_first: TLS before INFO.
        timeout: seconds without any progress, reconnects included, after which an operation is given up.
        api_prefix: the beginning of the subjects of JetStream's API; another domain or account has another one.
    """

    servers: str | Secret
    creds_file: str = ""
    nkey_seed_file: str = ""
    user: str = ""
    password: Secret | None = None
    token: Secret | None = None
    tls_ca_file: str = ""
    tls_cert_file: str = ""
    tls_key_file: str = ""
    tls_first: bool = False
    timeout: float = 30.0
    api_prefix: str = API_PREFIX

    def addresses(self) -> list[Server]:
        """Raises:
        Misconfigured: the URLs name no server.
        """
        if isinstance(self.servers, Secret):
            return read_servers(self.servers.load(), origin=self.servers.option)
        return read_servers(self.servers, origin="servers")

    def identity(self, server: Server, nonce: str) -> dict[str, str]:
        """The fields of CONNECT that identify us; userinfo in the URL wins.

        Raises:
            Misconfigured: a file or variable can't be read, or has a wrong content.
        """
        if server.user is not None:
            return user_or_token(server.user, server.password)
        if self.creds_file:
            return signed(_credentials(self.creds_file, "credsFile"), nonce, origin="credsFile")
        if self.nkey_seed_file:
            return signed(_credentials(self.nkey_seed_file, "nkeySeedFile"), nonce, origin="nkeySeedFile")
        if self.user and self.password is not None:
            return user_or_token(self.user, self.password.load())
        if self.token is not None:
            return {"auth_token": self.token.load()}
        return {}

    @property
    def identity_options(self) -> str:
        """The options that identify us, for errors, or the variable that stands for them."""
        if self.creds_file:
            return f"credsFile ({self.creds_file})"
        if self.nkey_seed_file:
            return f"nkeySeedFile ({self.nkey_seed_file})"
        if self.user and self.password is not None:
            return f"user ({self.user}) and {self.password.option}"
        if self.token is not None:
            return self.token.option
        if isinstance(self.servers, Secret):
            return self.servers.option
        return "credsFile, nkeySeedFile, user or tokenFile: none of them is given"

    def wants_tls(self, server: Server) -> bool:
        """Has the user asked for TLS? Then we send nothing to a server that does not offer it."""
        return bool(server.tls or self.tls_first or self.tls_ca_file or self.tls_cert_file)

    def tls_context(self) -> ssl.SSLContext:
        """A context that trusts the given CA, else the system's, and shows our certificate if there is one.

        Raises:
            Misconfigured: a file can't be read.
        """
        try:
            context = trust.context(Path(self.tls_ca_file).read_bytes() if self.tls_ca_file else b"")
            if not self.tls_ca_file:
                context.load_default_certs()
            if self.tls_cert_file:
                context.load_cert_chain(self.tls_cert_file, self.tls_key_file)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError, too
            raise Misconfigured(
                f"the TLS files can't be read on this machine ({error}): check tlsCaFile, tlsCertFile and tlsKeyFile",
                field="tlsCaFile",
            ) from error
        return context


def _credentials(path: str, option: str) -> Credentials:
    return read_credentials(_read_file(path, option), origin=option)


def _read_file(path: str, option: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise Misconfigured(
            f"{option} is {path!r}, which can't be read on this machine ({reason}): mount it for the driver and for "
            "the executors",
            field=option,
        ) from error


def environment() -> Mapping[str, str]:
    """The variables of this process; those of a Spark session are read when its JVM starts."""
    return os.environ

"""Where the API server is and who we are to it: a kubeconfig, or the service account of a pod.

Reads files, opens no connection. Tokens in files are read again when they change, since a pod's runs out after an hour;
those that a program gives are asked for again before they run out (`exec_plugin`). Of the other files `current` sees
that they have changed.
"""

from __future__ import annotations

import base64
import ssl
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headrace.core import trust
from headrace.core.errors import Misconfigured, Unavailable
from headrace.core.installation.operator_settings import KubeSettings
from headrace.io.process import environment, tls
from headrace.io.process.tls import Stamp
from headrace_operator.kube import exec_spec, kubeconfig
from headrace_operator.kube.exec_plugin import Credential, ExecPlugin

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
AUTHORITIES = ("certificate-authority", "certificate-authority-data")
NAMED_FILES = ("certificate-authority", "client-certificate", "client-key")


@dataclass(frozen=True, slots=True)
class Identity:
    """Who we are in one request: a bearer token, or none, and what the connection is made with."""

    token: str
    context: ssl.SSLContext | None
    credential: Credential | None = None

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


class ByProgram:
    """Identities that a program gives credentials for; with a new certificate come new connections."""

    def __init__(self, plugin: ExecPlugin, context: Callable[[Mapping[str, str]], ssl.SSLContext | None]) -> None:
        self._plugin = plugin
        self._context = context
        self._last: Identity | None = None

    async def identity(self) -> Identity:
        """Raises Unavailable: the program gives none."""
        credential = await self._plugin.credential()
        if self._last is None or self._last.credential is not credential:
            pem = {"client-certificate": credential.certificate, "client-key": credential.key}
            data = {f"{name}-data": base64.b64encode(text.encode()).decode() for name, text in pem.items() if text}
            try:
                context = self._context(data) if data or self._last is None else self._last.context
            except (ssl.SSLError, ValueError) as error:
                self._plugin.refuse(credential)
                raise Unavailable(f"the certificate that KUBECONFIG's program gave can't be used: {error}") from error
            self._last = Identity(credential.token, context, credential)
        return self._last

    def refused(self, identity: Identity) -> bool:
        """Is it worth while to ask for another?"""
        return identity.credential is not None and self._plugin.refuse(identity.credential)


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach the API server.

    Attributes:
        url: without a slash at its end.
        context: None for plain HTTP.
        token: gives the bearer token of this moment; empty: none is sent.
        namespace: that we run in.
        program: what gives identities in the place of token and context.
        server_name: that its certificate has to bear, in the place of the URL's host.
        proxy: URL of the proxy that leads there.
        files: of which all but the token was read.
        trusts_system: no CA is named, so that of the system counts.
    """

    url: str
    context: ssl.SSLContext | None
    token: Callable[[], str]
    namespace: str = "default"
    program: ByProgram | None = None
    server_name: str | None = None
    proxy: str | None = None
    files: tuple[str, ...] = ()
    trusts_system: bool = False

    def now(self) -> Access:
        """Itself, for whoever needs no other later."""
        return self

    async def identity(self) -> Identity:
        """That of this moment; raises Unavailable when the program that knows gives none."""
        if self.program is not None:
            return await self.program.identity()
        return Identity(self.token(), self.context)

    def refused(self, identity: Identity) -> bool:
        """The API server has answered 401; True when it is worth while to ask for another identity at once."""
        return self.program is not None and self.program.refused(identity)


def find(settings: KubeSettings) -> Access:
    """Take KUBECONFIG, else the pod's service account, else the user's own kubeconfig.

    Raises:
        Misconfigured: there is none of them, or it can't be used.
    """
    if settings.kubeconfig:
        return from_kubeconfig(*kubeconfig.paths(settings.kubeconfig))
    if settings.host:
        return from_service_account(settings.host, settings.port, SERVICE_ACCOUNT)
    own = kubeconfig.paths("")
    if own[0].exists():
        return from_kubeconfig(*own)
    raise Misconfigured(
        "no API server is known: set KUBECONFIG, or run in a pod that has a service account", field="KUBECONFIG"
    )


def from_service_account(host: str, port: int, directory: Path) -> Access:
    """The pod's own; raises Misconfigured when its files are not there."""
    authority, namespace = directory / "ca.crt", directory / "namespace"
    if not authority.exists():
        raise Misconfigured(
            f"{authority} is not there: give the pod a service account and mount its token", field="KUBECONFIG"
        )
    address = f"[{host}]" if ":" in host else host
    own = namespace.read_text(encoding="utf-8").strip() if namespace.exists() else "default"
    try:
        context = trust.context(authority.read_bytes())
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError, too
        raise Misconfigured(f"{authority} can't be used: {error}", field="KUBECONFIG") from error
    return Access(f"https://{address}:{port}", context, TokenFile(directory / "token"), own, files=(str(authority),))


def from_kubeconfig(*files: Path) -> Access:
    """The current context of a kubeconfig.

    Raises:
        Misconfigured: it is not one, or authenticates by what is not spoken here; or its program is not installed.
    """
    found = kubeconfig.chosen(files)
    cluster, user = found.cluster, found.user
    if user.get("username"):
        raise Misconfigured(
            f"KUBECONFIG {found.title!r} authenticates with 'username', which Kubernetes has given up with 1.19: give "
            "a token, a tokenFile or a client certificate, as `kubectl create token` prints one",
            field="KUBECONFIG",
        )
    server = str(cluster["server"]).rstrip("/")
    secure = server.startswith("https")
    try:
        context = _context(cluster, user) if secure else None
    except (OSError, ValueError, TypeError) as error:
        raise Misconfigured(
            f"KUBECONFIG {found.title!r}: its certificates can't be used: {error}", field="KUBECONFIG"
        ) from error
    told = Access(
        server,
        context,
        _token(user),
        found.namespace,
        server_name=cluster.get("tls-server-name") or None,
        proxy=cluster.get("proxy-url") or None,
        files=(*map(str, files), *(str(one[name]) for one in (cluster, user) for name in NAMED_FILES if one.get(name))),
        trusts_system=secure and not any(cluster.get(name) for name in AUTHORITIES),
    )
    program = user.get("exec")
    # As kubectl has it: a token that is given is taken.
    if not program or user.get("token") or user.get("tokenFile"):
        return told
    plugin = ExecPlugin(exec_spec.program(program, cluster), environment.surroundings())

    def with_certificate(data: Mapping[str, str]) -> ssl.SSLContext | None:
        return _context(cluster, data or user) if secure else None

    return replace(told, token=lambda: "", program=ByProgram(plugin, with_certificate))


class TokenFile:
    """A token that is read again whenever its file has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: tuple[Stamp, str] | None = None

    def __call__(self) -> str:
        stamp = tls.stamp(str(self._path))
        # Without one it is being replaced this moment: the old one is good for a while.
        if stamp is not None and (self._read is None or self._read[0] != stamp):
            with suppress(OSError, ValueError):
                self._read = (stamp, self._path.read_text(encoding="utf-8").strip())
        return self._read[1] if self._read else ""


def _token(user: Mapping[str, Any]) -> Callable[[], str]:
    if user.get("tokenFile"):
        return TokenFile(Path(user["tokenFile"]))
    token = str(user.get("token") or "")
    return lambda: token


def _context(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext:
    # As kubectl has it: data overrides the file that is named.
    data = cluster.get("certificate-authority-data")
    if data:
        context = trust.context(base64.b64decode(data))
    elif file := cluster.get("certificate-authority"):
        context = trust.context(Path(file).read_bytes())
    else:
        context = tls.of_system()
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    with tempfile.TemporaryDirectory() as scratch:
        certificate = _file(user, "client-certificate", Path(scratch))
        key = _file(user, "client-key", Path(scratch))
        if certificate is not None:
            context.load_cert_chain(certificate, key)
    return context


def _file(user: Mapping[str, Any], key: str, scratch: Path) -> Path | None:
    """One of the data that is given, since ssl loads files only, or else the file that is named."""
    data = user.get(f"{key}-data")
    if not data:
        return Path(user[key]) if user.get(key) else None
    written = scratch / key
    written.write_bytes(base64.b64decode(data))
    written.chmod(0o600)
    return written

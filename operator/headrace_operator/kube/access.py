"""Where the API server is and who we are to it: a kubeconfig, or the service account of a pod.

It reads files and opens no connection. A token in a file is read again when the file changes, since a pod's token runs
out after an hour; `live_access` sees that another file has changed.
"""

from __future__ import annotations

import base64
import ssl
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.core import trust
from headrace.core.errors import Misconfigured
from headrace.core.installation.operator_settings import KubeSettings
from headrace.io.process import tls
from headrace.io.process.tls import Stamp
from headrace_operator.kube import kubeconfig

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
AUTHORITIES = ("certificate-authority", "certificate-authority-data")
NAMED_FILES = ("certificate-authority", "client-certificate", "client-key")


@dataclass(frozen=True, slots=True)
class KubeAccess:
    """How to reach the API server.

    Attributes:
        url: without a slash at its end.
        context: None for plain HTTP.
        token: gives the bearer token of this moment; when it is empty, none is sent.
        namespace: the one in which we run.
        server_name: the name that the server's certificate has to bear, in place of the URL's host.
        proxy: URL of the proxy that leads there.
        files: the files from which everything but the token was read.
        trusts_system: no CA is named, so the CAs of the system count.
    """

    url: str
    context: ssl.SSLContext | None
    token: Callable[[], str]
    namespace: str = "default"
    server_name: str | None = None
    proxy: str | None = None
    files: tuple[str, ...] = ()
    trusts_system: bool = False

    @property
    def headers(self) -> dict[str, str]:
        """The headers that authenticate a request."""
        token = self.token()
        return {"Authorization": f"Bearer {token}"} if token else {}


def find(settings: KubeSettings) -> KubeAccess:
    """Take KUBECONFIG, else the pod's service account, else the user's own kubeconfig.

    Raises:
        Misconfigured: there is none, or the one found can't be used.
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


def from_service_account(host: str, port: int, directory: Path) -> KubeAccess:
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
    return KubeAccess(
        f"https://{address}:{port}", context, TokenFile(directory / "token"), own, files=(str(authority),)
    )


def from_kubeconfig(*files: Path) -> KubeAccess:
    """The current context of a kubeconfig.

    Raises:
        Misconfigured: a file is no kubeconfig, or its user authenticates in a way that is not supported here.
    """
    found = kubeconfig.chosen(files)
    cluster, user = found.cluster, found.user
    _judge_user(found.title, user)
    server = str(cluster["server"]).rstrip("/")
    secure = server.startswith("https")
    try:
        context = _context(cluster, user) if secure else None
    except (OSError, ValueError, TypeError) as error:
        raise Misconfigured(
            f"KUBECONFIG {found.title!r}: its certificates can't be used: {error}", field="KUBECONFIG"
        ) from error
    return KubeAccess(
        server,
        context,
        _token(user),
        found.namespace,
        server_name=cluster.get("tls-server-name") or None,
        proxy=cluster.get("proxy-url") or None,
        files=(*map(str, files), *(str(one[name]) for one in (cluster, user) for name in NAMED_FILES if one.get(name))),
        trusts_system=secure and not any(cluster.get(name) for name in AUTHORITIES),
    )


def _judge_user(title: str, user: Mapping[str, Any]) -> None:
    """Refuse a user that only a program or a password could authenticate."""
    token = "a token (`kubectl create token` prints one), a tokenFile or a client certificate"
    if user.get("username"):
        words = f"authenticates with 'username', which Kubernetes has given up with 1.19: give {token}"
    # As in kubectl, a token that is given is taken, and the program is not run.
    elif user.get("exec") and not user.get("token") and not user.get("tokenFile"):
        words = (
            "has users[].user.exec, a program that gives credentials, which the operator does not run: let it run in "
            f"the cluster as its service account, or give {token}"
        )
    else:
        return
    raise Misconfigured(f"KUBECONFIG {title!r} {words}", field="KUBECONFIG")


class TokenFile:
    """A token that is read again whenever its file has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: tuple[Stamp, str] | None = None

    def __call__(self) -> str:
        stamp = tls.stamp(str(self._path))
        # A file without a stamp is being replaced at this moment; the old token remains valid for a while.
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
    # As in kubectl, data overrides the file that is named.
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
    """A file with the data that is given, since ssl loads files only, or else the file that is named."""
    data = user.get(f"{key}-data")
    if not data:
        return Path(user[key]) if user.get(key) else None
    written = scratch / key
    written.write_bytes(base64.b64decode(data))
    written.chmod(0o600)
    return written

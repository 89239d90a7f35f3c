"""Where the API server is and who we are to it: a kubeconfig, or the service account of a pod.

Reads files, opens no connection. Tokens in files are read again when they change, since a pod's runs out after an hour.
"""

from __future__ import annotations

import base64
import ssl
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from headrace.core.errors import Misconfigured
from headrace.core.settings import KubeSettings

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
OWN_CONFIG = Path("~/.kube/config")
# What a kubeconfig may say that would need a program or a protocol of its own.
NOT_SPOKEN = ("exec", "auth-provider", "username")


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach the API server.

    Attributes:
        url: without a slash at its end.
        context: None for plain HTTP.
        token: gives the bearer token of this moment; empty: none is sent.
        namespace: that we run in.
    """

    url: str
    context: ssl.SSLContext | None
    token: Callable[[], str]
    namespace: str = "default"


def find(settings: KubeSettings) -> Access:
    """Take KUBECONFIG, else the pod's service account, else the user's own kubeconfig.

    Raises:
        Misconfigured: there is none of them, or it can't be used.
    """
    if settings.kubeconfig:
        return from_kubeconfig(Path(settings.kubeconfig))
    if settings.host:
        return from_service_account(settings.host, settings.port, SERVICE_ACCOUNT)
    own = OWN_CONFIG.expanduser()
    if own.exists():
        return from_kubeconfig(own)
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
    context = ssl.create_default_context(cafile=str(authority))
    return Access(f"https://{address}:{port}", context, TokenFile(directory / "token"), own)


def from_kubeconfig(path: Path) -> Access:
    """The current context of a kubeconfig.

    Raises:
        Misconfigured: it is not one, or authenticates by what is not spoken here.
    """
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
        context = _named(config, "contexts", config["current-context"])["context"]
        cluster = _named(config, "clusters", context["cluster"])["cluster"]
        user = (_named(config, "users", context["user"]).get("user") or {}) if context.get("user") else {}
        server = str(cluster["server"]).rstrip("/")
    except (OSError, ValueError, KeyError, TypeError, StopIteration, yaml.YAMLError) as error:
        raise Misconfigured(
            f"KUBECONFIG {str(path)!r} is not a kubeconfig with a current context: {error!r}", field="KUBECONFIG"
        ) from error
    foreign = [key for key in NOT_SPOKEN if user.get(key)]
    if foreign:
        raise Misconfigured(
            f"KUBECONFIG {str(path)!r} authenticates with {foreign[0]!r}: give a token, a tokenFile or a client "
            f"certificate, as `kubectl create token` prints one",
            field="KUBECONFIG",
        )
    tls = _context(cluster, user, path.parent) if server.startswith("https") else None
    return Access(server, tls, _token(user, path.parent), context.get("namespace") or "default")


class TokenFile:
    """A token that is read again whenever its file has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: tuple[int, str] | None = None

    def __call__(self) -> str:
        try:
            changed = self._path.stat().st_mtime_ns
            if self._read is None or self._read[0] != changed:
                self._read = (changed, self._path.read_text(encoding="utf-8").strip())
        except OSError:
            # Being replaced this moment: the old one is good for a while.
            pass
        return self._read[1] if self._read else ""


def _named(config: Mapping[str, Any], kind: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in config[kind] if each["name"] == name)
    return found


def _token(user: Mapping[str, Any], directory: Path) -> Callable[[], str]:
    if user.get("tokenFile"):
        return TokenFile(directory / user["tokenFile"])
    token = str(user.get("token") or "")
    return lambda: token


def _context(cluster: Mapping[str, Any], user: Mapping[str, Any], directory: Path) -> ssl.SSLContext:
    authority = cluster.get("certificate-authority")
    data = cluster.get("certificate-authority-data")
    context = ssl.create_default_context(
        cafile=str(directory / authority) if authority else None,
        cadata=base64.b64decode(data).decode() if data else None,
    )
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    with tempfile.TemporaryDirectory() as scratch:
        certificate = _file(user, "client-certificate", directory, Path(scratch))
        key = _file(user, "client-key", directory, Path(scratch))
        if certificate is not None:
            context.load_cert_chain(certificate, key)
    return context


def _file(user: Mapping[str, Any], key: str, directory: Path, scratch: Path) -> Path | None:
    """A file that is named or, since ssl loads files only, one of the data that is given."""
    if user.get(key):
        return directory / str(user[key])
    data = user.get(f"{key}-data")
    if not data:
        return None
    written = scratch / key
    written.write_bytes(base64.b64decode(data))
    written.chmod(0o600)
    return written

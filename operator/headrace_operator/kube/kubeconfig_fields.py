"""The fields of a kubeconfig's cluster and user: each is obeyed by its reader, or refused here.

No field that changes where we go or who we are is passed over in silence. This module knows the fields of client-go and
opens nothing. Called by `headrace_operator.kube.kubeconfig`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from headrace.core.errors import Misconfigured

PROXIES = ("http", "https")
_TEXTS = {
    "cluster": ("server", "certificate-authority", "certificate-authority-data", "tls-server-name", "proxy-url"),
    "user": (
        "client-certificate",
        "client-certificate-data",
        "client-key",
        "client-key-data",
        "token",
        "tokenFile",
        "username",
    ),
}
_IMPERSONATES = ("as", "as-uid", "as-groups", "as-user-extra")


def judge(title: str, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> None:
    """Refuse a context that asks for a feature that we lack.

    Args:
        title: names the files, for people.

    Raises:
        Misconfigured: the message names the field and the cure, and quotes no value that may be a secret.
    """
    for kind, body in (("cluster", cluster), ("user", user)):
        for name in _TEXTS[kind]:
            if not isinstance(body.get(name) or "", str):
                raise _wrong(title, f"its {kind}'s {name} is no text: put it in quotes")
    _judge_trust(title, cluster)
    _judge_proxy(title, str(cluster.get("proxy-url") or ""))
    for name in _IMPERSONATES:
        if user.get(name):
            advice = "take it out, and give a user or service account that has the rights itself"
            raise _wrong(title, f"its user acts as another ({name!r}), which is not spoken here: {advice}")
    if provider := user.get("auth-provider"):
        called = provider.get("name") if isinstance(provider, Mapping) else provider
        exec_ = "let the cloud's own tool write the entry anew, with `exec` (gke-gcloud-auth-plugin, kubelogin)"
        advice = f"give a token, or for the command line {exec_}"
        words = f"authenticates with the auth-provider {called!r}, which Kubernetes has given up with 1.26: {advice}"
        raise Misconfigured(f"KUBECONFIG {title!r} {words}", field="KUBECONFIG")


def _judge_trust(title: str, cluster: Mapping[str, Any]) -> None:
    insecure = cluster.get("insecure-skip-tls-verify")
    if insecure not in (None, True, False):
        raise _wrong(title, f"its cluster's insecure-skip-tls-verify is {insecure!r}: give true or false, unquoted")
    authorities = [name for name in ("certificate-authority-data", "certificate-authority") if cluster.get(name)]
    if insecure and authorities:
        authority = authorities[0]
        advice = f"take one of the two out; with {authority} alone the API server is known"
        raise _wrong(
            title, f"its cluster has insecure-skip-tls-verify beside {authority}, as kubectl refuses it: {advice}"
        )


def _judge_proxy(title: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        spoken = not url or (parts.scheme in PROXIES and bool(parts.hostname) and (parts.port or 1) > 0)
    except ValueError:
        spoken = False
    if not spoken:
        # The URL itself may hold a password.
        words = "its cluster's proxy-url is none of http://host:port and https://host:port, which are spoken here"
        raise _wrong(title, f"{words}: give a proxy of that kind, or a context without one")


def _wrong(title: str, words: str) -> Misconfigured:
    return Misconfigured(f"KUBECONFIG {title!r} can't be obeyed: {words}", field="KUBECONFIG")

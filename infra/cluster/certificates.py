"""The CA of a cluster, and the certificates that it signs.

The CA is made as by `openssl req -x509`: without keyUsage, like many that people have made by hand. Every program in
the cluster has to get along with it.
"""

from __future__ import annotations

from infra.cluster import machine
from infra.cluster.commands import run
from infra.cluster.instance import Cluster

_DAYS = "30"
_USAGE = "keyUsage=critical,digitalSignature,keyEncipherment\nsubjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n"


def make(cluster: Cluster) -> None:
    """Write them: `ca`, `server` (API server and kubelet), `admin`, and the key of service accounts."""
    addresses, folder = cluster.addresses, cluster.certificates
    folder.mkdir(mode=0o700)
    _openssl(
        cluster, *_new_key("ca"), "-x509", "-days", _DAYS, "-subj", f"/CN=headrace-{cluster.name}", "-out", "ca.crt"
    )
    names = ["localhost", *(f"kubernetes{rest}" for rest in ("", ".default", ".default.svc"))]
    alternatives = [f"DNS:{name}" for name in (*names, "kubernetes.default.svc.cluster.local")]
    alternatives += [f"IP:{address}" for address in ("127.0.0.1", addresses.api, addresses.node)]
    _sign(cluster, "server", "/CN=kube-apiserver", "serverAuth", f"subjectAltName={','.join(alternatives)}\n")
    _sign(cluster, "admin", "/O=system:masters/CN=admin", "clientAuth")
    _openssl(cluster, "genrsa", "-out", "accounts.key", "2048")
    _openssl(cluster, "rsa", "-in", "accounts.key", "-pubout", "-out", "accounts.pub")


def _sign(cluster: Cluster, name: str, subject: str, purpose: str, more: str = "") -> None:
    _openssl(cluster, *_new_key(name), "-subj", subject, "-out", f"{name}.csr")
    extensions = cluster.certificates / f"{name}.ext"
    extensions.write_text(f"{_USAGE}extendedKeyUsage={purpose}\n{more}")
    words = ["x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial"]
    _openssl(cluster, *words, "-days", _DAYS, "-out", f"{name}.crt", "-extfile", f"{name}.ext")


def _new_key(name: str) -> list[str]:
    return ["req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key"]


def _openssl(cluster: Cluster, *words: str) -> None:
    folder = f"{cluster.certificates}/"
    files = (".key", ".crt", ".csr", ".ext", ".pub")
    run(cluster, [machine.program("openssl"), *(folder + word if word.endswith(files) else word for word in words)])

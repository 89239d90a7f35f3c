"""The programs that make the node and its control plane: their command lines, in the order in which they start."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.cluster import configuration, machine
from infra.cluster.instance import API_PORT, NODE, Cluster
from infra.cluster.names import INGRESS, INGRESS_LOCAL, INGRESS_NAMESPACE

ETCD_PORT, ETCD_PEER_PORT = 2379, 2380
CONTROLLERS_PORT, SCHEDULER_PORT = 10257, 10259
INGRESS_PORT, INGRESS_LOCAL_PORT, INGRESS_HEALTH_PORT = 8080, 8081, 8082


@dataclass(frozen=True, slots=True)
class Daemon:
    """One program that runs until the node ends.

    Attributes:
        ready: a URL that answers 200, or the path of a socket that takes connections, once it serves; empty when
            nobody has to wait for it.
    """

    name: str
    command: Sequence[str | Path]
    ready: str = ""


def stages(cluster: Cluster, programs: Mapping[str, Path]) -> Sequence[Sequence[Daemon]]:
    """Each stage needs the one before it; the daemons of one start side by side."""
    return (
        (_etcd(cluster, programs),),
        (_api_server(cluster, programs), _containerd(cluster)),
        (
            _controllers(cluster, programs),
            _scheduler(cluster, programs),
            _proxy(cluster, programs),
            _kubelet(cluster, programs),
            _dns(cluster),
            _ingress(cluster, programs),
        ),
    )


def _etcd(cluster: Cluster, programs: Mapping[str, Path]) -> Daemon:
    client, peer = f"http://127.0.0.1:{ETCD_PORT}", f"http://127.0.0.1:{ETCD_PEER_PORT}"
    words = [
        "--name=node",
        f"--data-dir={cluster.data / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=node={peer}",
        # What a power cut leaves does not matter: the cluster is not for keeping.
        "--unsafe-no-fsync",
    ]
    return Daemon("etcd", [programs["etcd"], *words], f"{client}/health")


def _api_server(cluster: Cluster, programs: Mapping[str, Path]) -> Daemon:
    keys = cluster.certificates
    words = [
        f"--etcd-servers=http://127.0.0.1:{ETCD_PORT}",
        "--bind-address=0.0.0.0",
        f"--secure-port={API_PORT}",
        f"--advertise-address={cluster.addresses.node}",
        f"--tls-cert-file={keys / 'server.crt'}",
        f"--tls-private-key-file={keys / 'server.key'}",
        f"--client-ca-file={keys / 'ca.crt'}",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={keys / 'accounts.pub'}",
        f"--service-account-signing-key-file={keys / 'accounts.key'}",
        "--authorization-mode=RBAC",
        f"--service-cluster-ip-range={cluster.addresses.services}",
        "--allow-privileged=true",
        f"--audit-policy-file={cluster.configuration / 'audit.json'}",
        f"--audit-log-path={cluster.logs / 'audit.log'}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-certificate-authority={keys / 'ca.crt'}",
        f"--kubelet-client-certificate={keys / 'admin.crt'}",
        f"--kubelet-client-key={keys / 'admin.key'}",
    ]
    return Daemon("kube-apiserver", [programs["kube-apiserver"], *words], f"https://127.0.0.1:{API_PORT}/readyz")


def _containerd(cluster: Cluster) -> Daemon:
    words = ["-c", str(cluster.configuration / "containerd.toml")]
    return Daemon("containerd", [machine.program("containerd"), *words], str(cluster.containerd))


def _controllers(cluster: Cluster, programs: Mapping[str, Path]) -> Daemon:
    keys = cluster.certificates
    words = [
        f"--kubeconfig={cluster.kubeconfig}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={CONTROLLERS_PORT}",
        f"--tls-cert-file={keys / 'server.crt'}",
        f"--tls-private-key-file={keys / 'server.key'}",
        f"--service-account-private-key-file={keys / 'accounts.key'}",
        f"--root-ca-file={keys / 'ca.crt'}",
    ]
    ready = f"https://127.0.0.1:{CONTROLLERS_PORT}/healthz"
    return Daemon("kube-controller-manager", [programs["kube-controller-manager"], *words], ready)


def _scheduler(cluster: Cluster, programs: Mapping[str, Path]) -> Daemon:
    keys = cluster.certificates
    words = [
        f"--kubeconfig={cluster.kubeconfig}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={SCHEDULER_PORT}",
        f"--tls-cert-file={keys / 'server.crt'}",
        f"--tls-private-key-file={keys / 'server.key'}",
    ]
    ready = f"https://127.0.0.1:{SCHEDULER_PORT}/healthz"
    return Daemon("kube-scheduler", [programs["kube-scheduler"], *words], ready)


def _proxy(cluster: Cluster, programs: Mapping[str, Path]) -> Daemon:
    words = [f"--config={cluster.configuration / 'kube-proxy.json'}"]
    ready = f"http://127.0.0.1:{configuration.PROXY_HEALTH_PORT}/livez"
    return Daemon("kube-proxy", [programs["kube-proxy"], *words], ready)


def _kubelet(cluster: Cluster, programs: Mapping[str, Path]) -> Daemon:
    words = [
        f"--kubeconfig={cluster.kubeconfig}",
        f"--config={cluster.configuration / 'kubelet.json'}",
        f"--root-dir={cluster.data / 'kubelet'}",
        f"--cert-dir={cluster.data / 'kubelet-pki'}",
        f"--hostname-override={NODE}",
        f"--node-ip={cluster.addresses.node}",
    ]
    ready = f"http://127.0.0.1:{configuration.KUBELET_HEALTH_PORT}/healthz"
    return Daemon("kubelet", [programs["kubelet"], *words], ready)


def _dns(cluster: Cluster) -> Daemon:
    keys = cluster.certificates
    words = [f"--listen={cluster.addresses.node}", f"--api={cluster.api}", f"--ca={keys / 'ca.crt'}"]
    words += [f"--certificate={keys / 'admin.crt'}", f"--key={keys / 'admin.key'}"]
    return Daemon("dns", [sys.executable, "-m", "infra.cluster.dns", *words])


def _ingress(cluster: Cluster, programs: Mapping[str, Path]) -> Daemon:
    keys, node = cluster.certificates, cluster.addresses.node
    words = [
        f"-external={node}:{INGRESS_PORT}",
        f"-local={node}:{INGRESS_LOCAL_PORT}",
        f"-external-name={INGRESS}.{INGRESS_NAMESPACE}.svc.cluster.local",
        f"-local-name={INGRESS_LOCAL}.{INGRESS_NAMESPACE}.svc.cluster.local",
        f"-health=127.0.0.1:{INGRESS_HEALTH_PORT}",
        f"-api={cluster.api}",
        f"-ca={keys / 'ca.crt'}",
        f"-certificate={keys / 'admin.crt'}",
        f"-key={keys / 'admin.key'}",
    ]
    return Daemon("ingress", [programs["ingress"], *words], f"http://127.0.0.1:{INGRESS_HEALTH_PORT}/healthz")

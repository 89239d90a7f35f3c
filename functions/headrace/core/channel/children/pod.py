"""The pods of a function: one container of our image, told by its environment which function it is.

Knative Services and Deployments run the same pods. Knative takes only a part of a pod's fields, and everything here is
in that part, but for an author's wishes in `deploymentSpecTemplate`: node selector, affinity, tolerations and priority
class are behind Knative's feature flags.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.core.channel.child_marks import FUNCTION_LABEL, OWN_RECONCILE, SHARED_LABEL, standard_labels
from headrace.core.channel.children.access import Mount, NatsMounts
from headrace.core.installation.reconcile_settings import FunctionsSettings

PORT, TLS_PORT = 8080, 8443
LIVENESS, READINESS = "/health/liveness", "/health/readiness"

# An idle one has 50 MiB. The limit has room for RECEIVE_MAX_WAITING_BYTES and FORWARD_MAX_PROCESS_BYTES, twice, since
# bytes are copied on their way out. One CPU, since `receive` has a process with such limits for each (ADR 019), and
# `forward` has no use for a second one; a function may be idle, so it asks for little.
DEFAULT_RESOURCES = {
    "requests": {"cpu": "100m", "memory": "64Mi"},
    "limits": {"cpu": "1", "memory": "256Mi"},
}
# Kubernetes' Pod Security Standards call this restricted. The image writes no file, and its user has a number.
SECURITY = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


@dataclass(frozen=True, slots=True)
class Function:
    """One function as it is to run, on any runtime.

    Attributes:
        target: receive, forward or reconcile.
        shared: several channels use it; then it has no channel's wishes.
        variables: further ones of its environment.
        labels, annotations: of the object, for people and for selectors.
        template: the wishes of the channel's author for its pods, as far as they are obeyed.
    """

    target: str
    name: str
    namespace: str
    settings: FunctionsSettings
    access: NatsMounts
    shared: bool = False
    variables: tuple[tuple[str, str], ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    template: Mapping[str, Any] = field(default_factory=dict)

    @property
    def selector(self) -> dict[str, str]:
        """The labels that its pods have and no others."""
        return {FUNCTION_LABEL: self.name}

    @property
    def marks(self) -> dict[str, str]:
        """The labels by which people find it: those of no object of the installation itself."""
        return standard_labels(OWN_RECONCILE if self.target == "reconcile" else self.target)

    def metadata(self, **labels: str) -> dict[str, Any]:
        """The metadata of each object that belongs to it."""
        shared = {SHARED_LABEL: "true"} if self.shared else {}
        body: dict[str, Any] = {
            "name": self.name,
            "namespace": self.namespace,
            "labels": {**self.marks, **self.selector, **shared, **self.labels, **labels},
        }
        return {**body, "annotations": self.annotations} if self.annotations else body


def template(function: Function, annotations: dict[str, str], container: dict[str, Any]) -> dict[str, Any]:
    """The pod template; our settings win over the author's.

    Args:
        annotations: of the pods, for their runtime.
        container: additions to the container, for the same.
    """
    author = function.template
    labels = {**author.get("labels", {}), **function.marks, **function.selector, **function.labels}
    metadata: dict[str, Any] = {"labels": labels}
    annotations = {**author.get("annotations", {}), **function.annotations, **annotations}
    if annotations:
        metadata["annotations"] = annotations
    access = function.access.for_function(function.target)
    mounts = access.mounts
    spec: dict[str, Any] = {
        # A function never talks to Kubernetes.
        "automountServiceAccountToken": False,
        # Otherwise each Service of the namespace adds a variable, and there are as many Services as channels.
        "enableServiceLinks": False,
        "containers": [{**_container(function, author, access), **container}],
    }
    if function.settings.service_account:
        spec["serviceAccountName"] = function.settings.service_account
    if mounts:
        spec["volumes"] = [_volume(mount) for mount in mounts]
    secrets = [name.strip() for name in function.settings.pull_secrets.split(",")]
    secrets += [one["name"] for one in author.get("imagePullSecrets", ())]
    if any(secrets):
        spec["imagePullSecrets"] = [{"name": name} for name in dict.fromkeys(secrets) if name]
    for key in ("nodeSelector", "affinity", "tolerations", "priorityClassName"):
        if author.get(key):
            spec[key] = author[key]
    return {"metadata": metadata, "spec": spec}


def probe(path: str, **timing: int) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": PORT}, **timing}


def _container(function: Function, author: Mapping[str, Any], access: NatsMounts) -> dict[str, Any]:
    variables = {**dict(function.settings.functions_env), "FUNCTION_TARGET": function.target}
    variables |= dict(access.variables)
    # The kubelet would write another variable's value in the place of `$(NAME)`, and a stream may be called that.
    variables |= {name: value.replace("$(", "$$(") for name, value in function.variables}
    body = {
        "name": function.target,
        "image": function.settings.image,
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "resources": author.get("resources") or DEFAULT_RESOURCES,
        "securityContext": SECURITY,
    }
    if access.mounts:
        body["volumeMounts"] = [{"name": one.volume, "mountPath": one.path, "readOnly": True} for one in access.mounts]
    return body


def _volume(mount: Mount) -> dict[str, Any]:
    """All files in one directory, from however many objects; the kubelet swaps it as a whole."""
    sources: dict[tuple[str, str, bool], list[dict[str, str]]] = {}
    for one in mount.files:
        kind, name = ("secret", one.secret) if one.secret else ("configMap", one.config_map)
        items = sources.setdefault((kind, name, one.optional), [])
        if one.key:
            items.append({"key": one.key, "path": one.file})
    projected = [
        {kind: {"name": name, **({"items": items} if items else {}), **({"optional": True} if optional else {})}}
        for (kind, name, optional), items in sources.items()
    ]
    return {"name": mount.volume, "projected": {"sources": projected}}

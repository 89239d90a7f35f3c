"""Headrace in the cluster, installed and removed as docs/install.md says."""

from __future__ import annotations

import json
import time
from contextlib import suppress

from tests.support.cluster.kubectl import SYSTEM, Kubectl, Refused, until
from tests.support.kube.install import blocks
from tests.support.programs.page import Shell, channel_commands, of

OPERATOR, HOOK, TOKEN = "headrace-operator", "headrace-hook", "headrace-token"
# Kinds that make channels, and would make them again: they go first.
MAKERS = (
    "brokers.eventing.knative.dev",
    "sequences.flows.knative.dev",
    "parallels.flows.knative.dev",
    "channels.messaging.knative.dev",
)
CHANNELS = "natsjetstreamchannels.messaging.knative.dev"
CRD = f"crd/{CHANNELS}"
_SECONDS = 180.0


class Installation:
    """What the page says, done.

    Attributes:
        shell: with the page's commands; `$IMAGE` is the image in the cluster.
    """

    def __init__(self, kubectl: Kubectl, shell: Shell) -> None:
        self._kubectl = kubectl
        self.shell = shell

    def is_there(self) -> bool:
        return bool(self._kubectl("get", f"deployment/{OPERATOR}", "-n", SYSTEM, "--ignore-not-found", "-o", "name"))

    def have(self) -> None:
        """Installed by kubectl; over what a test that failed has left of its own installation."""
        if self.is_there():
            return
        if self._kubectl("get", f"secret/{TOKEN}", "-n", SYSTEM, "--ignore-not-found", "-o", "name"):
            self.by_kubectl_again()
            self.wait()
        else:
            self.by_kubectl()

    def by_kubectl(self) -> float:
        """As the page says it for a cluster with Knative Serving; seconds until it is ready."""
        began = time.monotonic()
        self.shell(first_of("kubectl"))
        self.wait()
        return time.monotonic() - began

    def by_kubectl_again(self) -> None:
        """The same over what is there, as an upgrade: its token stays."""
        create, *rest = first_of("kubectl").splitlines()
        assert "create secret" in create, create
        self.shell("\n".join(rest))

    def wait(self) -> None:
        """Until operator and `reconcile` are ready, whatever the latter is."""
        self._kubectl(
            "rollout", "status", f"deployment/{OPERATOR}", "-n", SYSTEM, f"--timeout={_SECONDS:.0f}s", seconds=200
        )
        if self._kubectl("get", "ksvc", HOOK, "-n", SYSTEM, "--ignore-not-found", "-o", "name"):
            self._kubectl.wait_ready("ksvc", HOOK, SYSTEM, _SECONDS)
        else:
            words = ["rollout", "status", "deployment/headrace-reconcile", "-n", SYSTEM]
            self._kubectl(*words, f"--timeout={_SECONDS:.0f}s", seconds=200)

    def delete_channels(self) -> None:
        """What makes channels, then the channels, with the page's commands; and wait until none is left."""
        for command in channel_commands():
            if "annotate" not in command:
                self.shell(command)
        assert self._kubectl.objects(CHANNELS, "") == []

    def makers(self) -> list[str]:
        """Namespace and name of each channel, and kind and name of who makes it, as the page shows them."""
        (block,) = [block for block in blocks() if block.about == "makers"]
        return sorted(" ".join(line.split()) for line in self.shell(block.text).splitlines())

    def remove_aside(self, name: str, namespace: str, nats: str) -> str:
        """As the page says it, for another channel; what the commands write."""
        (block,) = [block for block in blocks() if block.about == "aside"]
        text = block.text.replace("kn jetstream", "kn-jetstream").replace("-n shop", f"-n {namespace}")
        return self.shell(f"export NATS_URL={nats}\n{text.replace(' orders ', f' {name} ')}")

    def remove(self, applied: str = "") -> float:
        """As the page says it; seconds that it took.

        Args:
            applied: the command that deletes what was applied, where that was not `infra/install.yaml`.
        """
        began = time.monotonic()
        self.delete_channels()
        text = next(block.text for block in of("Uninstall") if block.about == "run")
        if applied:
            line = next(line for line in text.splitlines() if "delete -f infra/install.yaml" in line)
            text = text.replace(line, applied)
        self.shell(text)
        return time.monotonic() - began

    def left(self) -> list[str]:
        """Whatever in the cluster is ours, of all kinds that it has: by label, by name, by finalizer."""
        kinds = self._kubectl("api-resources", "--verbs=list", "-o", "name").split()
        skipped = ("events", "events.events.k8s.io", "componentstatuses")
        everything = ",".join(kind for kind in kinds if kind not in skipped and "metrics" not in kind)
        found = json.loads(self._kubectl("get", everything, "-A", "-o", "json", "--ignore-not-found"))["items"]
        return sorted(_called(one) for one in found if _ours(one))

    def wait_until_nothing_is_left(self, seconds: float = 90.0) -> float:
        """Pods that Knative has scaled away are there for another half minute; seconds that it took."""
        found: list[str] = []

        def nothing() -> bool:
            # A kind that is just being removed can't be listed.
            with suppress(Refused):
                found[:] = self.left()
                return not found
            return False

        try:
            return until("nothing of ours is left", nothing, seconds, pause=1.0)
        except AssertionError as problem:
            raise AssertionError(f"{problem}: {found}") from None


def first_of(section: str) -> str:
    """The first block of a section that is to be run, the installation. What follows is for other clusters."""
    return next(block.text for block in blocks() if block.section == section and block.about == "run")


def of_kind(kubectl: Kubectl, kind: str, namespace: str) -> list[str]:
    """Components of ours that are of a kind in a namespace."""
    found = kubectl.objects(kind, namespace, "app.kubernetes.io/name=headrace")
    return [one["metadata"]["labels"]["app.kubernetes.io/component"] for one in found]


def _ours(one: dict[str, object]) -> bool:
    metadata = one["metadata"]
    assert isinstance(metadata, dict)
    labels = metadata.get("labels") or {}
    named = "headrace" in metadata["name"] or "natsjetstreamchannel" in metadata["name"]
    labelled = (
        labels.get("app.kubernetes.io/name") == "headrace" or labels.get("app.kubernetes.io/managed-by") == "headrace"
    )
    held = any("headrace" in finalizer for finalizer in metadata.get("finalizers") or ())
    # The ingress of the cluster itself is called so, too.
    return (named or labelled or held) and not metadata["name"].startswith("headrace-ingress")


def _called(one: dict[str, object]) -> str:
    metadata = one["metadata"]
    assert isinstance(metadata, dict)
    return f"{one['kind']} {metadata.get('namespace', '')}/{metadata['name']}"

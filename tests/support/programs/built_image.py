"""The image that `task image` makes, unpacked, and the pods of our manifests started from it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra.image import build
from infra.image.store import Store
from tests.support.functions.functions import TOKEN
from tests.support.kube.install import INFRA, in_file
from tests.support.nats.nats_server import free_port
from tests.support.programs.containers import Container, Image
from tests.support.programs.pod_runtime import Given

# Where `reconcile` is as a Knative Service and as a Deployment.
RECONCILE = {
    "knative": INFRA / "base" / "reconcile.yaml",
    "deployment": INFRA / "overlays" / "deployment" / "reconcile.yaml",
}


@dataclass(frozen=True)
class Built:
    """The image unpacked, and as the file that a registry or a node is given."""

    image: Image
    archive: Path


@contextmanager
def built() -> Iterator[Built]:
    """Built if need be, which takes seconds where each layer is there already."""
    with ExitStack() as stack:
        with Store() as store:
            build.build(store, build.NAME)
            unpacked = Path(stack.enter_context(store.folder_for_a_while()))
            for folder in ("files", "archive"):
                (unpacked / folder).mkdir()
            store.unpack(build.NAME, unpacked / "files")
            build.archive(store, build.NAME, unpacked / "archive" / "image.tar")
            config = json.loads(store.said("inspect", "--type=image", build.NAME))["OCIv1"]["config"]
        # Others may build meanwhile.
        yield Built(Image(unpacked / "files", config), unpacked / "archive" / "image.tar")


def pod_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of the pods of a Deployment or a Knative Service."""
    found = body["spec"]["template"]["spec"]
    assert isinstance(found, dict)
    return found


def installed(path: Path) -> dict[str, Any]:
    """The one object of a file that has pods."""
    (found,) = [one for one in in_file(path) if "template" in one["spec"]]
    return found


@dataclass
class Pods:
    """What pods are given here: the token's Secret, ports, and NATS.

    Attributes:
        image: that they are started from.
    """

    image: Image
    directory: Path
    nats_url: str
    settings: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.directory / "token").mkdir()
        (self.directory / "token" / "token").write_text(TOKEN)

    def container(
        self, pod: Mapping[str, Any], *, memory: int | None = None, account: Path | None = None, **settings: str
    ) -> Container:
        """Of a pod, with ports of its own.

        Args:
            memory: MiB, in place of the manifest's limit.
            settings: further environment variables.
        """
        here = {"PORT": str(free_port()), "METRICS_PORT": str(free_port()), "NATS_URL": self.nats_url, **settings}
        fields = {"metadata.name": "headrace-operator-0", "metadata.namespace": "knative-eventing"}
        limit = memory * 2**20 if memory else None
        given = Given({"headrace-token": self.directory / "token"}, here, fields, account, limit)
        return Container(self.image, pod, given, self.directory)

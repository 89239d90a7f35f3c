"""The images of a cluster: a list of them, their files beside the programs, and the way into containerd."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from infra.cache import CACHE, locked
from infra.cluster import archive, machine, programs
from infra.cluster.archive import Image
from infra.cluster.commands import run
from infra.cluster.instance import Cluster
from infra.cluster.names import NATS, PAUSE, of_program
from infra.programs.go_programs import Program
from infra.programs.nats_server import binary as nats_server

_KEPT = CACHE / "cluster" / "images"


def of_cluster(*, bare: bool = False) -> Sequence[Image]:
    """What a cluster with Knative and NATS runs, or one without."""
    if bare:
        return [_pause()]
    return [_pause(), _nats(), *(_of(each) for each in (*programs.SERVING, *programs.EVENTING))]


def of_conformance() -> Sequence[Image]:
    """What Knative's own tests run beside it, and something that has curl, for them."""
    return [_of(each) for each in (programs.EVENTSHUB, programs.HEARTBEATS)]


def files(images: Sequence[Image]) -> Iterator[Path]:
    """Archives of these, written where they are missing or no longer true."""
    _KEPT.mkdir(parents=True, exist_ok=True)
    for image in images:
        stem = image.name.rpartition("/")[2].replace(":", "-")
        file = _KEPT / f"{stem}-{image.key}.tar"
        with locked(_KEPT / f"{stem}.lock"):
            if not file.exists():
                for old in _KEPT.glob(f"{stem}-{'?' * len(image.key)}.tar"):
                    old.unlink()
                archive.write(image, file)
        yield file


def load(cluster: Cluster, file: Path) -> None:
    """Bring an archive into the cluster, under the name that it says.

    Raises:
        Problem: containerd does not take it.
    """
    run(cluster, [*_ctr(cluster), "images", "import", str(file)])


def pull(cluster: Cluster, name: str) -> None:
    """Bring an image in from a registry that this machine reaches, under its name there.

    Raises:
        Problem: it can't be had.
    """
    run(cluster, [*_ctr(cluster), "images", "pull", "--plain-http", name])


def loaded(cluster: Cluster) -> set[str]:
    """Names of the images that are there."""
    return set(run(cluster, [*_ctr(cluster), "images", "list", "--quiet"]).split())


def remove(cluster: Cluster, name: str) -> None:
    """Forget an image; containers that run from it go on."""
    run(cluster, [*_ctr(cluster), "images", "remove", name])


def _ctr(cluster: Cluster) -> list[str]:
    return [machine.program("ctr"), f"--address={cluster.containerd}", "--namespace=k8s.io"]


def _of(program: Program) -> Image:
    path = programs.found((program,))[program.name]
    to = f"/ko-app/{program.name}"
    return Image(of_program(program.name), {path: to}, [to], environment=("PATH=/ko-app", "KO_DATA_PATH=/var/run/ko"))


def _pause() -> Image:
    return Image(PAUSE, {machine.busybox(): "/bin/busybox"}, ["/bin/busybox", "sleep", "1000000000"])


def _nats() -> Image:
    return Image(NATS, {Path(nats_server()): "/nats-server"}, ["/nats-server"], user="0")

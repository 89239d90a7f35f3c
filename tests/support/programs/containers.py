"""A container by runc, started as a kubelet would, on the image unpacked in a folder; nothing of it outlives the test.

A shell holds it, in namespaces of its own and in a session of its own: it obeys the words of its input, and at their
end, which comes also when this process is killed, it removes the container with its cgroup. Mounts go with it.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from infra.image.machine import APART
from tests.support.programs.pod_runtime import Given, configuration

START_SECONDS = 120.0
_STOP_SECONDS = 60.0
_CGROUPS = Path("/sys/fs/cgroup")
# The image stays as it is: what the runtime puts there to mount upon is in memory, as is its own state.
_HOLDER = """
mount -t tmpfs -o mode=755 tmpfs "$BUNDLE/over" && cd "$BUNDLE/over" && mkdir upper work state || exit 1
mount -t overlay -o "lowerdir=$LOWER,upperdir=upper,workdir=work" overlay "$BUNDLE/rootfs" || exit 1
runtime() { runc --root "$BUNDLE/over/state" "$@"; }
while read -r line; do eval "$line" >"$BUNDLE/said" 2>&1 </dev/null; echo "$?"; done
runtime delete --force "$NAME" >/dev/null 2>&1
"""


@dataclass(frozen=True)
class Image:
    """An image, unpacked.

    Attributes:
        config: of the image: Env, Cmd, User.
    """

    folder: Path
    config: Mapping[str, Any]


class Container:
    """The only container of a pod; use it as a context manager. Blocking methods.

    Attributes:
        port: that its program is told to listen on, PORT.
        seconds: from its program's start until it was ready.
    """

    _serial = itertools.count(1)

    def __init__(self, image: Image, pod: Mapping[str, Any], given: Given, directory: Path) -> None:
        """Args:
        pod: the pod's spec.
        directory: for the bundle and the log.
        """
        self.name = f"headrace-image-{os.getpid()}-{next(self._serial)}"
        self._bundle = directory / self.name
        for folder in ("over", "rootfs"):
            (self._bundle / folder).mkdir(parents=True)
        self._config = configuration(pod, image.config, given, self.name)
        (self._bundle / "config.json").write_text(json.dumps(self._config))
        self._environment = {**os.environ, "BUNDLE": str(self._bundle), "LOWER": str(image.folder), "NAME": self.name}
        self.port = int(given.environment.get("PORT", 0))
        self.seconds = 0.0

    def __enter__(self) -> Container:
        pipe = subprocess.PIPE
        self._holder = subprocess.Popen(
            [*APART, "sh", "-c", _HOLDER],
            stdin=pipe,
            stdout=pipe,
            env=self._environment,
            text=True,
            start_new_session=True,
        )
        try:
            self._do('runtime create --bundle "$BUNDLE" "$NAME" >"$BUNDLE/log" 2>&1')
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            # The end of its input is what it waits for.
            self._holder.communicate(timeout=_STOP_SECONDS)
        finally:
            self._holder.kill()
            self._holder.communicate()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Container:
        """Its program begins; the runtime has made all around it before."""
        self._began = time.monotonic()
        self._do('runtime start "$NAME"')
        return self

    def until(self, url: str) -> Container:
        """Start it, and wait for 200 from its probe."""
        self.start()
        while (status := probe(url)) != 200:
            waited = time.monotonic() - self._began
            if not self.runs or waited > START_SECONDS:
                raise AssertionError(f"{self.name} answers {status} after {waited:.0f} s; its log ends:\n{self.log}")
            time.sleep(0.01)
        self.seconds = time.monotonic() - self._began
        return self

    @property
    def runs(self) -> bool:
        return bool(json.loads(self._do('runtime state "$NAME"'))["status"] == "running")

    @property
    def log(self) -> str:
        return (self._bundle / "log").read_text(encoding="utf-8", errors="replace")

    def terminate(self) -> None:
        """SIGTERM to its first process, and wait for the end."""
        self._do('runtime kill "$NAME" TERM')
        self.wait()

    def wait(self) -> str:
        """Until it has ended; its log."""
        deadline = time.monotonic() + START_SECONDS
        while self.runs:
            assert time.monotonic() < deadline, f"{self.name} still runs; its log ends:\n{self.log[-2000:]}"
            time.sleep(0.02)
        return self.log

    def ran(self) -> str:
        """Start it, and its log once it has ended."""
        return self.start().wait()

    def memory(self) -> tuple[float, float]:
        """MiB that its processes have of their own now, and the most that its cgroup ever had, files included."""
        first = _CGROUPS / "memory" / self.name
        folder, peak, own = (
            (first, "memory.max_usage_in_bytes", "total_rss")
            if first.is_dir()
            else (_CGROUPS / self.name, "memory.peak", "anon")
        )
        told = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        # Linux before 5.19 keeps no peak of the second kind of cgroups.
        most = folder / peak if (folder / peak).exists() else folder / "memory.current"
        return int(told[own]) / 2**20, int(most.read_text()) / 2**20

    def written(self) -> list[str]:
        """What is in its root file system and not in the image; less what the runtime made there to mount upon."""
        # Where a pod's account is, there is a link to /run in the image.
        places = (one["destination"].removeprefix("/var") for one in self._config["mounts"])
        mounted = [place.lstrip("/") for place in places]
        found = self._do("cd upper && find . -mindepth 1 -printf '%P\\n'; cd ..").splitlines()
        return [name for name in found if not any(f"{one}/".startswith(f"{name}/") for one in mounted)]

    def _do(self, line: str) -> str:
        """One line of shell where the container is; what it says."""
        assert self._holder.stdin is not None
        assert self._holder.stdout is not None
        self._holder.stdin.write(f"{line}\n")
        self._holder.stdin.flush()
        status = self._holder.stdout.readline().strip()
        said = (self._bundle / "said").read_text(errors="replace") if (self._bundle / "said").exists() else ""
        if status != "0":
            log = self.log if (self._bundle / "log").exists() else ""
            raise AssertionError(f"`{line}` ended with {status or 'its shell'}: {said}{log[-2000:]}")
        return said


def with_command(pod: Mapping[str, Any], *words: str) -> dict[str, Any]:
    """The same pod, running something else."""
    (container,) = pod["containers"]
    return {**pod, "containers": [{**container, "command": list(words)}]}


def probe(url: str) -> int:
    """The status that it answers; 0 without an answer."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0

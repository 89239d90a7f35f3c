"""Credentials from a program that a kubeconfig names under `exec`, as EKS, GKE and AKS have their users do.

Runs the program when credentials are needed, keeps what it gave until shortly before that runs out, and asks anew when
the API server refuses it. One run serves all who wait. Speaks client.authentication.k8s.io/v1 and v1beta1.
"""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from headrace.core.errors import Misconfigured, Unavailable
from headrace.io import log

GROUP = "client.authentication.k8s.io"
VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
MODES = ("Never", "IfAvailable", "Always")
INFO = "KUBERNETES_EXEC_INFO"
# Clocks differ, and a request takes its time.
EARLY = timedelta(seconds=60)
AFTER_REFUSAL = timedelta(seconds=10)
# Somebody may have to go through a sign-in with a browser.
LONGEST_RUN = 300.0
KEPT_LINES = 5

_log = log.get("kube")


@dataclass(frozen=True, slots=True)
class Credential:
    """What the program gave; `certificate` and `key` are PEM. `expires` None: good until it is refused."""

    token: str = field(default="", repr=False)
    certificate: str = ""
    key: str = field(default="", repr=False)
    expires: datetime | None = None

    def good_at(self, moment: datetime) -> bool:
        return self.expires is None or moment < self.expires


@dataclass(frozen=True, slots=True)
class Program:
    """The `exec` of a user.

    Attributes:
        variables: beside those that we have ourselves.
        hint: what to do when it is not installed.
        interactive: may it ask on the terminal: Never, IfAvailable or Always.
        cluster: what it is told of the cluster; None: it does not want to know.
    """

    command: str
    arguments: tuple[str, ...]
    variables: Mapping[str, str]
    api_version: str
    hint: str
    interactive: str
    cluster: Mapping[str, Any] | None

    def info(self, *, interactive: bool) -> str:
        """What it finds in KUBERNETES_EXEC_INFO."""
        spec: dict[str, Any] = {"interactive": interactive}
        if self.cluster is not None:
            spec["cluster"] = dict(self.cluster)
        return json.dumps({"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec})


def program(spec: Mapping[str, Any], cluster: Mapping[str, Any]) -> Program:
    """Read the `exec` of a user, and what the program is to be told of the cluster.

    Raises:
        Misconfigured: it makes no sense, or is of a version that is not spoken.
    """
    version = str(spec.get("apiVersion") or "")
    if version not in VERSIONS:
        raise _wrong("apiVersion", version, f"update the program and let it write {VERSIONS[0]} or {VERSIONS[1]}")
    command = str(spec.get("command") or "")
    if not command:
        raise _wrong("command", command, "name the program")
    mode = str(spec.get("interactiveMode") or "IfAvailable")
    if mode not in MODES:
        raise _wrong("interactiveMode", mode, f"give one of {', '.join(MODES)}")
    try:
        variables = {str(one["name"]): str(one["value"]) for one in spec.get("env") or ()}
        arguments = tuple(map(str, spec.get("args") or ()))
    except (KeyError, TypeError) as error:
        raise _wrong("env", spec.get("env"), "give a list of name and value") from error
    told = _told_of(cluster) if spec.get("provideClusterInfo") else None
    return Program(command, arguments, variables, version, str(spec.get("installHint") or ""), mode, told)


class ExecPlugin:
    """Credentials of one user; all methods on one loop at a time."""

    def __init__(
        self,
        program: Program,
        surroundings: Mapping[str, str],
        *,
        terminal: bool | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Args:
        surroundings: the environment that the program is given, beside its own variables.
        terminal: may it be asked on; None: as it is.

        Raises:
            Misconfigured: the program is not installed, or wants a terminal where none is.
        """
        self._program = program
        self._environment = {**surroundings, **program.variables}
        available = terminal if terminal is not None else sys.stdin is not None and sys.stdin.isatty()
        self._interactive = available and program.interactive != "Never"
        self._now = now
        self._credential: Credential | None = None
        self._refused_at: datetime | None = None
        self._lock = asyncio.Lock()
        self._path = shutil.which(program.command, path=self._environment.get("PATH"))
        if self._path is None:
            hint = f": {program.hint.strip()}" if program.hint.strip() else ", or give a token in the kubeconfig"
            raise Misconfigured(
                f"KUBECONFIG authenticates with the program {program.command!r}, which is not there: install it{hint}",
                field="KUBECONFIG",
            )
        if program.interactive == "Always" and not available:
            raise Misconfigured(
                f"KUBECONFIG authenticates with the program {program.command!r}, which asks on a terminal "
                "(interactiveMode Always), and there is none: give a token, as `kubectl create token` prints one",
                field="KUBECONFIG",
            )

    async def credential(self) -> Credential:
        """One that is good for a while yet.

        Raises:
            Unavailable: the program gives none.
        """
        async with self._lock:
            held = self._credential
            if held is not None and held.good_at(self._now() + EARLY):
                return held
            try:
                self._credential = await self._run()
            except Unavailable as error:
                if held is None or not held.good_at(self._now()):
                    raise
                _log.warning("credentials are not renewed yet, trying again", error=str(error))
                return held
            return self._credential

    def refuse(self, credential: Credential) -> bool:
        """The API server does not take it: is it worth while to ask for another?

        False when one was asked for a moment ago for the same reason: the program would run with every request.
        """
        if self._credential is not credential:
            return True
        now = self._now()
        if self._refused_at is not None and now < self._refused_at + AFTER_REFUSAL:
            return False
        self._credential, self._refused_at = None, now
        return True

    async def _run(self) -> Credential:
        command, interactive = self._program.command, self._interactive
        environment = {**self._environment, INFO: self._program.info(interactive=interactive)}
        try:
            process = await asyncio.create_subprocess_exec(
                str(self._path),
                *self._program.arguments,
                env=environment,
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=None if interactive else asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise Unavailable(f"the program {command!r} can't be run: {error}") from error
        try:
            async with asyncio.timeout(LONGEST_RUN):
                output, said = await asyncio.gather(_all(process.stdout), _passed_on(process.stderr))
                status = await process.wait()
        except TimeoutError:
            raise Unavailable(f"the program {command!r} gives no credentials within {LONGEST_RUN:.0f} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if status != 0:
            words = f": {said}" if said else ""
            raise Unavailable(f"the program {command!r} gives no credentials, exit status {status}{words}")
        return parsed(output, self._program)


def parsed(output: bytes, asked: Program) -> Credential:
    """What the program has written.

    Raises:
        Unavailable: that is no credential. What it wrote is not quoted: it may be one after all.
    """
    try:
        body = json.loads(output)
        version, status = body["apiVersion"], body["status"]
        token = str(status.get("token") or "")
        certificate, key = str(status.get("clientCertificateData") or ""), str(status.get("clientKeyData") or "")
        until = status.get("expirationTimestamp")
        expires = datetime.fromisoformat(str(until)) if until else None
        expires = expires.replace(tzinfo=UTC) if expires is not None and expires.tzinfo is None else expires
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        kind = type(error).__name__
        raise Unavailable(f"the program {asked.command!r} wrote what is no ExecCredential ({kind})") from None
    if version != asked.api_version:
        raise Unavailable(
            f"the program {asked.command!r} speaks {version!r}, but KUBECONFIG says {asked.api_version!r}"
        )
    if bool(certificate) != bool(key):
        raise Unavailable(f"the program {asked.command!r} gave only one of clientCertificateData and clientKeyData")
    if not token and not certificate:
        raise Unavailable(f"the program {asked.command!r} gave neither token nor clientCertificateData")
    return Credential(token, certificate, key, expires)


def _told_of(cluster: Mapping[str, Any]) -> dict[str, Any]:
    told = {
        name: cluster[name]
        for name in (
            "server",
            "tls-server-name",
            "insecure-skip-tls-verify",
            "certificate-authority-data",
            "proxy-url",
            "disable-compression",
        )
        if cluster.get(name)
    }
    if cluster.get("certificate-authority") and "certificate-authority-data" not in told:
        try:
            authority = Path(cluster["certificate-authority"]).read_bytes()
        except OSError as error:
            raise _wrong("provideClusterInfo", True, f"the cluster's CA can't be read: {error}") from error
        told["certificate-authority-data"] = base64.b64encode(authority).decode()
    for extension in cluster.get("extensions") or ():
        if extension.get("name") == f"{GROUP}/exec":
            told["config"] = extension.get("extension")
    return told


async def _all(stream: asyncio.StreamReader | None) -> bytes:
    assert stream is not None
    return await stream.read()


async def _passed_on(stream: asyncio.StreamReader | None) -> str:
    """Hand on what the program says to people, as it comes; the last of it, for the error."""
    lines: list[str] = []
    rest = b""
    while stream is not None and (chunk := await stream.read(4096)):
        text = chunk.decode(errors="replace")
        print(text, end="", file=sys.stderr, flush=True)
        *whole, rest = (rest + chunk).split(b"\n")
        lines = [*lines, *(line.decode(errors="replace") for line in whole)][-KEPT_LINES:]
    return " ".join([*lines, rest.decode(errors="replace")]).strip()


def _wrong(name: str, value: object, advice: str) -> Misconfigured:
    return Misconfigured(f"KUBECONFIG: users[].user.exec.{name} is {value!r}: {advice}", field="KUBECONFIG")

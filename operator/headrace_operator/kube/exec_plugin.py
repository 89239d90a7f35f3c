"""Credentials from a program that a kubeconfig names under `exec`, as EKS, GKE and AKS have their users do.

Runs the program when credentials are needed, keeps what it gave until shortly before that runs out, and asks anew when
the API server refuses it. One run serves all who wait.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from headrace.core.errors import Misconfigured, Unavailable
from headrace.io.process import log
from headrace.io.process.trouble import Trouble
from headrace_operator.kube import exec_run
from headrace_operator.kube.exec_spec import Program

INFO = "KUBERNETES_EXEC_INFO"
# Clocks differ, and a request takes its time.
EARLY = timedelta(seconds=60)
AFTER_REFUSAL = timedelta(seconds=10)
# All who wait are told of one failure, and the program is not run for each of them.
AFTER_FAILURE = timedelta(seconds=5)
# What may stand in a header of a request.
_TOKEN = re.compile(r"[ -~]*")

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
        self._failed: tuple[datetime, str] | None = None
        self._trouble = Trouble()
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
            if self._failed is not None and self._now() < self._failed[0] + AFTER_FAILURE:
                if held is not None and held.good_at(self._now()):
                    return held
                raise Unavailable(self._failed[1])
            try:
                self._credential, self._failed = await self._run(), None
            except Unavailable as error:
                self._failed = self._now(), str(error)
                if held is None or not held.good_at(self._now()):
                    raise
                # What is held runs out within a minute: no time to wait and see.
                write = _log.warning if self._trouble.note(str(error), 0.0) else _log.debug
                write("credentials are not renewed yet, trying again", error=str(error))
                return held
            self._trouble.over()
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
        ended = await exec_run.run(
            str(self._path), self._program.arguments, environment, title=command, interactive=interactive
        )
        if ended.status != 0:
            words = f": {ended.said}" if ended.said else ""
            raise Unavailable(f"the program {command!r} gives no credentials, exit status {ended.status}{words}")
        found = parsed(ended.output, self._program)
        if not found.good_at(self._now()):
            raise Unavailable(
                f"the program {command!r} gave credentials that ran out at {found.expires}: "
                "sign in anew, or set the clock"
            )
        return found


def parsed(output: bytes, asked: Program) -> Credential:
    """What the program has written.

    Raises:
        Unavailable: that is no credential. What it wrote is not quoted: it may be one after all.
    """
    try:
        body = json.loads(output)
        version, status = body["apiVersion"], body["status"]
        # A shell's `echo` ends it with a line end.
        token = str(status.get("token") or "").removesuffix("\n").removesuffix("\r")
        certificate, key = str(status.get("clientCertificateData") or ""), str(status.get("clientKeyData") or "")
        until = status.get("expirationTimestamp")
        expires = datetime.fromisoformat(str(until)) if until else None
        expires = expires.replace(tzinfo=UTC) if expires is not None and expires.tzinfo is None else expires
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        kind = type(error).__name__
        raise Unavailable(f"the program {asked.command!r} wrote what is no ExecCredential ({kind})") from None
    if version != asked.api_version:
        raise Unavailable(
            f"the program {asked.command!r} speaks {str(version)[:100]!r}, but KUBECONFIG says {asked.api_version!r}"
        )
    if not _TOKEN.fullmatch(token):
        raise Unavailable(f"the program {asked.command!r} gave a token that is not all printable ASCII characters")
    if bool(certificate) != bool(key):
        raise Unavailable(f"the program {asked.command!r} gave only one of clientCertificateData and clientKeyData")
    if not token and not certificate:
        raise Unavailable(f"the program {asked.command!r} gave neither token nor clientCertificateData")
    return Credential(token, certificate, key, expires)

"""A program that gives credentials, as kubeconfigs name one: it says what a test wants and keeps what it is told."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

V1 = "client.authentication.k8s.io/v1"
# Each run takes the first answer that is left, and the last one over and over.
_TEXT = """#!/bin/sh
echo run >> {directory}/runs
printf %s "$KUBERNETES_EXEC_INFO" > {directory}/info
printf '%s|%s' "$*" "$PROFILE" > {directory}/told
runs=$(wc -l < {directory}/runs)
answer={directory}/answer-$((runs))
[ -e "$answer" ] || answer={directory}/answer-last
. "$answer"
"""


class ExecProgram:
    """One program in a directory of its own."""

    def __init__(self, directory: Path, api_version: str = V1) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.path = directory / "give-credentials"
        self._directory = directory
        self._api_version = api_version
        self._answers = 0
        self.path.write_text(_TEXT.format(directory=directory))
        self.path.chmod(0o755)

    def spec(self, **more: Any) -> dict[str, Any]:
        """For `users[].user.exec`."""
        return {"apiVersion": self._api_version, "command": str(self.path), "interactiveMode": "Never", **more}

    def gives(self, expires: datetime | None = None, **status: str) -> None:
        """One more answer: a credential."""
        until = {} if expires is None else {"expirationTimestamp": expires.strftime("%Y-%m-%dT%H:%M:%SZ")}
        body = {"apiVersion": self._api_version, "kind": "ExecCredential", "status": {**status, **until}}
        self.does(f"cat <<'END'\n{json.dumps(body)}\nEND")

    def does(self, script: str) -> None:
        """One more answer: these lines of shell."""
        self._answers += 1
        for name in (f"answer-{self._answers}", "answer-last"):
            (self._directory / name).write_text(script + "\n")

    @property
    def runs(self) -> int:
        file = self._directory / "runs"
        return len(file.read_text().splitlines()) if file.exists() else 0

    @property
    def info(self) -> dict[str, Any]:
        """KUBERNETES_EXEC_INFO of the last run."""
        found: dict[str, Any] = json.loads((self._directory / "info").read_text())
        return found

    @property
    def told(self) -> str:
        """Arguments and the variable PROFILE of the last run."""
        return (self._directory / "told").read_text()

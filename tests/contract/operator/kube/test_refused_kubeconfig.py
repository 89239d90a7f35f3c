"""A kubeconfig that the operator can't obey ends it at once, with a sentence that says what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import yaml


def test_a_program_that_gives_credentials_is_refused_by_its_field(tmp_path: Path) -> None:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"exec": {"command": "aws", "apiVersion": "client.authentication.k8s.io/v1"}}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    given = {"KUBECONFIG": str(file), "HOOK_URL": "http://127.0.0.1:1", "HEADRACE_TOKEN": "t0ken"}
    ended = subprocess.run(
        [sys.executable, "-m", "headrace_operator"],
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        f"headrace_operator: KUBECONFIG {str(file)!r} has users[].user.exec, a program that gives credentials, which "
        "the operator does not run: let it run in the cluster as its service account, or give a token (`kubectl create "
        "token` prints one), a tokenFile or a client certificate\n"
    )

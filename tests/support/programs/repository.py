"""A clean copy of this repository, like a clone: the files that git knows or would take, and none that it ignores."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def copy(target: Path) -> Path:
    """Into a folder that is not there yet; a repository of its own, with nothing to commit."""
    known = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(known, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        # A file that was deleted and not yet committed is still listed.
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    identity = ["-c", "user.name=tests", "-c", "user.email=tests@headrace.example", "-c", "commit.gpgsign=false"]
    for words in (["init", "--quiet"], ["add", "--all"], [*identity, "commit", "--quiet", "--message", "copied"]):
        subprocess.run(["git", *words], cwd=target, check=True)
    return target


def changes(copied: Path) -> str:
    """What `git status` would tell there: one line for each change; empty when there is none."""
    status = ["git", "status", "--porcelain", "--untracked-files=all"]
    return subprocess.run(status, cwd=copied, check=True, capture_output=True, text=True).stdout

"""A kubeconfig, or several in a row, and the cluster, the user and the namespace of one context in it.

This module reads files and judges their form; `kubeconfig_fields` judges the fields. The first word counts, as with
kubectl, and a relative path starts at the file that it stands in. Called by `headrace_operator.kube.access`, and by the
CLI.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from headrace.core.errors import Misconfigured
from headrace.core.quoting import quoted
from headrace_operator.kube import kubeconfig_fields

OWN = Path("~/.kube/config")
_FILES = {
    "clusters": ("certificate-authority",),
    "users": ("client-certificate", "client-key", "tokenFile"),
}
_MEMBERS = {"clusters": "cluster", "users": "user", "contexts": "context"}


@dataclass(frozen=True, slots=True)
class Chosen:
    """One context.

    Attributes:
        title: names the files that were read, for people.
        cluster, user: as they stand in the files, with whole paths.
        namespace: `default` where none is named.
    """

    title: str
    cluster: Mapping[str, Any]
    user: Mapping[str, Any]
    namespace: str


def paths(listed: str) -> list[Path]:
    """The files that the variable KUBECONFIG lists; where it is empty, the user's own file."""
    named = [Path(one) for one in listed.split(os.pathsep) if one]
    return named or [OWN.expanduser()]


def chosen(files: Sequence[Path], context: str | None = None) -> Chosen:
    """The context of that name, else the current one.

    Raises:
        Misconfigured: there is none, the files are no kubeconfigs, or a field asks for a feature that we lack.
    """
    title = os.pathsep.join(str(file) for file in files)
    named, current = _read(title, files)
    wanted = context or current
    found = _named(title, named, "contexts", wanted)
    cluster = _named(title, named, "clusters", found.get("cluster"))
    user = _named(title, named, "users", found["user"]) if found.get("user") else {}
    if not cluster.get("server"):
        raise _fault(title, f"says nothing of the server of its cluster {quoted(found['cluster'])}")
    kubeconfig_fields.judge(title, cluster, user)
    return Chosen(title, cluster, user, str(found.get("namespace") or "default"))


def _read(title: str, files: Sequence[Path]) -> tuple[dict[str, dict[str, Any]], str]:
    """Clusters, users and contexts by name, and the name of the current context."""
    try:
        # kubectl passes over missing files, unless there is only one file.
        return _merged([file for file in files if file.exists()] if len(files) > 1 else files)
    except OSError as error:
        raise _fault(title, f"can't be read: {error.strerror or error}") from error
    except yaml.MarkedYAMLError as error:
        # The error's other words quote lines, and a token may stand in one.
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise _fault(title, f"is not YAML{line}: {error.problem}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, yaml.YAMLError) as error:
        raise _fault(title, f"is no kubeconfig ({type(error).__name__})") from error


def _named(title: str, named: Mapping[str, Mapping[str, Any]], kind: str, name: object) -> Mapping[str, Any]:
    """The cluster, user or context of a name.

    Raises:
        Misconfigured: there is none of that name; the message lists the names that there are.
    """
    known = named[kind]
    one, names = _MEMBERS[kind], " and ".join(quoted(each) for each in known)
    there = f"its {kind} are {names}" if names else f"it has no {kind}"
    if not name:
        what = "current-context, and none was named" if kind == "contexts" else f"{one} in that context"
        raise _fault(title, f"has no {what}: {there}")
    found: Mapping[str, Any] | None = known.get(name) if isinstance(name, str) else None
    if found is None:
        raise _fault(title, f"has no {one} {quoted(name)}: {there}")
    return found


def _fault(title: str, words: str) -> Misconfigured:
    return Misconfigured(f"KUBECONFIG {title!r} {words}", field="KUBECONFIG")


def _merged(files: Sequence[Path]) -> tuple[dict[str, dict[str, Any]], str]:
    named: dict[str, dict[str, Any]] = {kind: {} for kind in _MEMBERS}
    current = ""
    for file in files:
        config = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
        current = current or str(config.get("current-context") or "")
        for kind, member in _MEMBERS.items():
            for entry in config.get(kind) or ():
                named[kind].setdefault(entry["name"], _whole(kind, entry.get(member) or {}, file.parent))
    return named, current


def _whole(kind: str, body: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """The member with whole paths; a program that is named without a path is looked for in PATH."""
    whole = dict(body)
    for name in _FILES.get(kind, ()):
        if whole.get(name):
            whole[name] = str(directory.absolute() / str(whole[name]))
    program = whole.get("exec")
    command = program.get("command") if isinstance(program, Mapping) else None
    if isinstance(program, Mapping) and isinstance(command, str) and os.sep in command:
        whole["exec"] = {**program, "command": str(directory.absolute() / command)}
    return whole

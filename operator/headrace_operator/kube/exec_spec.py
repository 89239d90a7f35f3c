"""What a kubeconfig says under `exec`: a program to run for credentials, and what it is told.

Judges its form, runs nothing. Speaks client.authentication.k8s.io/v1 and v1beta1.
"""

from __future__ import annotations

import base64
import json
import os
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.core.errors import Misconfigured

GROUP = "client.authentication.k8s.io"
VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
MODES = ("Never", "IfAvailable", "Always")

_shortened = reprlib.Repr()
_shortened.maxstring = _shortened.maxother = 100


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
    if not isinstance(spec, Mapping):
        raise Misconfigured(
            f"KUBECONFIG: users[].user.exec is {_short(spec)}: give apiVersion, command, args and env",
            field="KUBECONFIG",
        )
    version = str(spec.get("apiVersion") or "")
    if version not in VERSIONS:
        raise _wrong("apiVersion", version, f"update the program and let it write {VERSIONS[0]} or {VERSIONS[1]}")
    command = _text("command", spec.get("command"))
    if not command:
        raise _wrong("command", command, "name the program")
    mode = str(spec.get("interactiveMode") or "IfAvailable")
    if mode not in MODES:
        raise _wrong("interactiveMode", mode, f"give one of {', '.join(MODES)}")
    arguments = tuple(_text(f"args[{place}]", one) for place, one in enumerate(_list("args", spec.get("args"))))
    told = _told_of(cluster) if spec.get("provideClusterInfo") else None
    hint = str(spec.get("installHint") or "")
    return Program(command, arguments, _variables(spec), version, hint, mode, told)


def _variables(spec: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for place, one in enumerate(_list("env", spec.get("env"))):
        if not isinstance(one, Mapping):
            raise _wrong(f"env[{place}]", one, "give name and value")
        name = _text(f"env[{place}].name", one.get("name"))
        if not name or "=" in name:
            raise _wrong(f"env[{place}].name", name, "give a name without '='")
        found[name] = _text(f"env[{place}].value", one.get("value"))
    return found


def _list(name: str, value: object) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise _wrong(name, value, "give a list")
    return value


def _text(name: str, value: object) -> str:
    """That can be given to a process; nothing counts as empty, as with kubectl."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _wrong(name, value, "write text, in quotes")
    try:
        os.fsencode(value)
    except UnicodeEncodeError as error:
        raise _wrong(name, value, "leave out what can't be given to a program") from error
    if "\0" in value:
        raise _wrong(name, value, "leave out the character NUL")
    return value


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
        except (OSError, ValueError) as error:
            raise _wrong("provideClusterInfo", True, f"the cluster's CA can't be read: {error}") from error
        told["certificate-authority-data"] = base64.b64encode(authority).decode()
    extensions = cluster.get("extensions") or []
    if not isinstance(extensions, list) or not all(isinstance(one, Mapping) for one in extensions):
        raise _wrong_of_cluster("extensions", extensions, "give a list of name and extension")
    for extension in extensions:
        if extension.get("name") == f"{GROUP}/exec":
            told["config"] = extension.get("extension")
    for name, value in told.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            where = "extensions" if name == "config" else name
            raise _wrong_of_cluster(
                where, value, "the program is told in JSON: write dates and bytes as text"
            ) from error
    return told


def _wrong(name: str, value: object, advice: str) -> Misconfigured:
    return Misconfigured(f"KUBECONFIG: users[].user.exec.{name} is {_short(value)}: {advice}", field="KUBECONFIG")


def _wrong_of_cluster(name: str, value: object, advice: str) -> Misconfigured:
    return Misconfigured(f"KUBECONFIG: clusters[].cluster.{name} is {_short(value)}: {advice}", field="KUBECONFIG")


def _short(value: object) -> str:
    """Quoted, as far as a person reads, however deep it is."""
    try:
        return _shortened.repr(value)
    except RecursionError:
        return "too deep"

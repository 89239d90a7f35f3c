"""The program that a kubeconfig names to give credentials: run once, as kubectl runs it.

Called by `headrace_cli.cluster.kube`, also when an API server refuses what the program gave before. Source: client-go's
credential plugins, client.authentication.k8s.io/v1.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from headrace.core.errors import Misconfigured, Unavailable

_EXTENSION = "client.authentication.k8s.io/exec"
_PEM = {"client-certificate-data": "clientCertificateData", "client-key-data": "clientKeyData"}
# What a program or its description of another shape makes of our reading.
_STRANGE = (ValueError, TypeError, LookupError, AttributeError, OSError)


def wants_program(user: Mapping[str, Any]) -> bool:
    """As in kubectl, a token that is given is taken, and the program is not run."""
    return bool(user.get("exec")) and not user.get("token") and not user.get("tokenFile")


def by_program(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> dict[str, str]:
    """The members of a kubeconfig's user that the program's answer stands for.

    Raises:
        Unavailable: the program gives none.
        Misconfigured: the program is not installed, or the kubeconfig does not name one.
    """
    told = user["exec"]
    if not isinstance(told, Mapping) or not isinstance(told.get("command"), str):
        raise Misconfigured("the kubeconfig's users[].user.exec names no command", field="--kubeconfig")
    command = told["command"]
    try:
        said = _status(_run(told, cluster), str(told.get("apiVersion")), command)
        given = {name: base64.b64encode(said[data].encode()).decode() for name, data in _PEM.items() if said.get(data)}
        given |= {"token": said["token"].strip()} if said.get("token") else {}
    except FileNotFoundError as error:
        hint = str(told.get("installHint") or "").strip() or "or give a token in the kubeconfig"
        problem = f"the kubeconfig authenticates with the program {command!r}, which is not there"
        raise Misconfigured(f"{problem}: install it: {hint}", field="--kubeconfig") from error
    except _STRANGE as error:
        problem = f"the kubeconfig's users[].user.exec can't be used: {error}"
        raise Misconfigured(problem, field="--kubeconfig") from error
    if not given:
        raise Unavailable(f"the program {command!r} gave neither token nor clientCertificateData")
    return given


def _run(told: Mapping[str, Any], cluster: Mapping[str, Any]) -> str:
    """The program's output; at a terminal it may ask its user."""
    asks = sys.stdout.isatty()
    spec: dict[str, Any] = {"interactive": asks}
    if told.get("provideClusterInfo"):
        own = [one["extension"] for one in cluster.get("extensions") or () if one["name"] == _EXTENSION]
        spec["cluster"] = {**cluster, **({"config": own[0]} if own else {})}
    info = json.dumps({"apiVersion": told["apiVersion"], "kind": "ExecCredential", "spec": spec})
    more = {one["name"]: one["value"] for one in told.get("env") or ()}
    ran = subprocess.run(
        [told["command"], *(told.get("args") or ())],
        stdout=subprocess.PIPE,
        stderr=None if asks else subprocess.PIPE,
        env={**os.environ, **more, "KUBERNETES_EXEC_INFO": info},
        text=True,
        check=False,
    )
    if ran.returncode:
        words = ". ".join(filter(None, (f"process returned {ran.returncode}", (ran.stderr or "").strip())))
        raise _no_credentials(told["command"], words)
    return ran.stdout


def _status(output: str, version: str, command: str) -> Mapping[str, str]:
    try:
        answer = json.loads(output)
        if answer["apiVersion"] != version:
            raise _no_credentials(command, f"its API version is {answer['apiVersion']}, not {version}")
        found: Mapping[str, str] = answer["status"]
    except (ValueError, TypeError, KeyError) as error:
        raise _no_credentials(command, f"its output is no ExecCredential ({type(error).__name__})") from error
    return found


def _no_credentials(command: str, why: str) -> Unavailable:
    return Unavailable(f"the program {command!r} gives no credentials: exec: {why}")

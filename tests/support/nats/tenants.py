"""Two NATS accounts on one server, and the `reconcile` of the functions that are let into the second one.

`Tenant` plays the kubelet: it runs that `reconcile` as a process of its own, told what the answered Deployment tells.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.core import caller_token
from tests.support.functions.functions import TOKEN, Function
from tests.support.kube.mounts import Mount
from tests.support.nats.nats_server import NatsServer, free_port

INSTALLATION, TENANT = "installation", "tenant"
PASSWORD = "of-the-tests"
ACCOUNTS = (
    "accounts {"
    + "".join(
        f"{user.upper()}: {{ jetstream: enabled, users: [{{ user: {user}, password: {PASSWORD} }}] }}\n"
        for user in (INSTALLATION, TENANT)
    )
    + "}"
)

# What only a cluster has, names of Services, is read from a file.
ASKING = """
import functools, os, pathlib, sys
from headrace.host.serving import main
from headrace.io.jetstream import own_account
reached = pathlib.Path(os.environ["REACHED"])
own_account.Calls = functools.partial(own_account.Calls, reach=lambda url: reached.read_text())
sys.exit(main())
"""


class Accounts(NatsServer):
    """A server with both."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, config=ACCOUNTS)

    def url_of(self, user: str) -> str:
        return f"nats://{user}:{PASSWORD}@127.0.0.1:{self.port}"


def secret_of(user: str) -> dict[str, str]:
    """What its Secret holds."""
    return {"username": user, "password": PASSWORD}


@dataclass
class Tenant:
    """Functions that run for one namespace, as far as a test starts them.

    Attributes:
        credentials: by folder, what is mounted; `swap` their Secrets.
        config: the ConfigMap that is mounted, if a test has mounted one.
        started: the `reconcile` that runs; `url` leads nowhere before.
    """

    server: NatsServer
    directory: Path
    credentials: dict[str, Mount] = field(default_factory=dict)
    config: Mount | None = None
    started: Function | None = None
    nowhere: int = field(default_factory=free_port)

    @property
    def root(self) -> Path:
        return self.directory / "credentials"

    def mount(self, level: str, files: Mapping[str, str]) -> Mount:
        """A Secret, at a level."""
        found = Mount(self.root / level, **{name.replace(".", "__"): text for name, text in files.items()})
        self.credentials[level] = found
        return found

    def reach(self, _url: str) -> str:
        """Where its `reconcile` is, for who looks for it by its name in the cluster."""
        return self.started.url if self.started is not None else f"http://127.0.0.1:{self.nowhere}"

    def asking(self, nats_url: str, **settings: str) -> Function:
        """The installation's `reconcile`, which reaches that of the tenant where it is."""
        self.note()
        asking = Function("reconcile", nats_url, self.directory, ready=True, REACHED=str(self._reached), **settings)
        asking.program = ("-c", ASKING)
        return asking

    def note(self) -> None:
        """Write down where it is, for another process."""
        self._reached.write_text(self.reach(""))

    @property
    def _reached(self) -> Path:
        return self.directory / "reached"

    def function(self, target: str, body: Mapping[str, Any], **settings: str) -> Function:
        """A function as its Deployment has it, where the paths of a pod are ours."""
        (container,) = body["spec"]["template"]["spec"]["containers"]
        env = {one["name"]: one["value"] for one in container["env"]}
        told = {name: text for name, text in env.items() if not name.startswith("NATS_") or "INBOX" in name}
        os.makedirs(self.root, exist_ok=True)
        ours = {"NATS_CREDENTIALS_DIR": str(self.root), "HEADRACE_TOKEN": ""}
        if self.config is not None:
            ours |= {"NATS_CONFIG_DIR": self.config.path, "NATS_CONFIG_NAME": "config-nats"}
        return Function(target, self.server.url, self.directory, ready=False, **{**told, **ours, **settings})

    def reconcile(self, body: Mapping[str, Any], **settings: str) -> AbstractContextManager[Function]:
        """Run it; at the end of the context it is gone again."""
        return _Running(self, self.function("reconcile", body, **settings))


class _Running(AbstractContextManager[Function]):
    def __init__(self, tenant: Tenant, function: Function) -> None:
        self._tenant = tenant
        self._function = function

    def __enter__(self) -> Function:
        self._tenant.started = self._function.start()
        self._tenant.note()
        return self._function

    def __exit__(self, *_exc: object) -> None:
        self._tenant.started = None
        self._tenant.note()
        self._function.stop()


def token_at(url: str) -> str:
    """What a caller with the shared token shows there."""
    return caller_token.bearer_for(TOKEN.encode(), url)

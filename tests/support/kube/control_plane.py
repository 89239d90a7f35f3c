"""A real control plane on the loopback: etcd, kube-apiserver and kube-controller-manager, with TLS and one admin.

The controllers are those that an API server alone lacks: garbage collection, the end of namespaces, and roles that take
in others. No scheduler and no node: pods are objects that nobody runs.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

from headrace.core import trust
from infra.programs import control_plane_binaries as binaries
from tests.support.http.authorities import as_openssl_makes_it

# Alone on two cores all is up in 5 s; on busy ones it takes as long as it takes.
START_SECONDS = 180.0
_POLL_SECONDS = 0.05
_STOP_SECONDS = 10.0
CONTROLLERS = ("garbage-collector-controller", "namespace-controller", "clusterrole-aggregation-controller")
_TOKEN = "admin-of-the-tests"
_PR_SET_PDEATHSIG = 1


class ControlPlane:
    """Three processes; blocking methods.

    Attributes:
        url: of the API server.
        token: bearer token of an admin (system:masters).
        ca: path of the CA's certificate.
        kubeconfig: for kubectl and for clients that read one.
        certificate, key: paths of the admin's, in place of the token.
        issuer_keys: paths of the keys of service accounts' tokens, from the next start on: the first one signs, and all
            are published.
    """

    def __init__(self, directory: Path, controllers: Sequence[str] = CONTROLLERS) -> None:
        """Args:
        directory: for certificates, logs and data; made when it does not exist.
        controllers: what kube-controller-manager runs.
        """
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._which = controllers
        self._programs = binaries.found()
        self._processes: list[tuple[str, subprocess.Popen[bytes]]] = []
        self._etcd, self._etcd_peer, self._port, self._controllers = _free_ports(4)
        self.token = _TOKEN
        self.url = f"https://127.0.0.1:{self._port}"
        self.ca = directory / "ca.pem"
        self.kubeconfig = directory / "kubeconfig"
        self.certificate, self.key = directory / "admin.pem", directory / "admin.key"
        self.issuer_keys = [directory / "server.key"]
        self._write_files()

    def start(self) -> ControlPlane:
        """Start all three and wait until they serve; what has started is stopped when one does not."""
        try:
            self._start_etcd()
            self._start_api_server()
            self._start_controllers()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End all of them, the last first, for sure."""
        for _, process in reversed(self._processes):
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()

    def restart_api_server(self) -> None:
        """Kill the API server, start it anew on the same data, and wait until it serves."""
        old = next(process for name, process in self._processes if name == "kube-apiserver")
        old.kill()
        old.wait()
        self._processes = [(name, process) for name, process in self._processes if process is not old]
        self._start_api_server()

    def context(self) -> ssl.SSLContext:
        """What clients trust."""
        return trust.context(self.ca.read_bytes())

    def log(self, program: str) -> str:
        return (self._directory / f"{program}.log").read_text(encoding="utf-8", errors="replace")

    def _start_etcd(self) -> None:
        client, peer = f"http://127.0.0.1:{self._etcd}", f"http://127.0.0.1:{self._etcd_peer}"
        arguments = [
            f"--data-dir={self._directory / 'etcd'}",
            "--name=tests",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=tests={peer}",
        ]
        # Debian's is older and has no such flag.
        if b"unsafe-no-fsync" in _help(self._programs["etcd"]):
            arguments.append("--unsafe-no-fsync")
        self._run("etcd", *arguments)
        self._wait("etcd", f"{client}/health")

    def _start_api_server(self) -> None:
        key = self._directory / "server.key"
        self._run(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self._port}",
            f"--cert-dir={self._directory}",
            f"--tls-cert-file={self._directory / 'server.pem'}",
            f"--tls-private-key-file={key}",
            f"--client-ca-file={self.ca}",
            f"--token-auth-file={self._directory / 'tokens.csv'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            *(f"--service-account-key-file={published}" for published in self.issuer_keys),
            f"--service-account-signing-key-file={self.issuer_keys[0]}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--disable-admission-plugins=ServiceAccount",
            "--allow-privileged=true",
            "--endpoint-reconciler-type=none",
        )
        self._wait("kube-apiserver", f"{self.url}/readyz")

    def _start_controllers(self) -> None:
        self._run(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            "--leader-elect=false",
            f"--controllers={','.join(self._which)}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._controllers}",
            f"--tls-cert-file={self._directory / 'server.pem'}",
            f"--tls-private-key-file={self._directory / 'server.key'}",
            f"--root-ca-file={self.ca}",
        )
        self._wait("kube-controller-manager", f"https://127.0.0.1:{self._controllers}/healthz")

    def _run(self, program: str, *arguments: str) -> None:
        with (self._directory / f"{program}.log").open("wb") as log:
            process = subprocess.Popen(
                [self._programs[program], *arguments],
                cwd=self._directory,
                stdout=log,
                stderr=log,
                # Also when this process is killed, and no clean-up runs.
                preexec_fn=_die_with_the_parent,
            )
        self._processes.append((program, process))

    def _wait(self, program: str, url: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {self.token}"})
        while True:
            status = self._processes[-1][1].poll()
            if status is not None or time.monotonic() > deadline:
                fate = f"ended with {status}" if status is not None else f"does not serve after {START_SECONDS:.0f} s"
                raise AssertionError(f"{program} {fate}; its log ends:\n{self.log(program)[-3000:]}")
            with contextlib.suppress(OSError, urllib.error.URLError):
                context = self.context() if url.startswith("https") else None
                with urllib.request.urlopen(request, timeout=5, context=context):
                    return
            time.sleep(_POLL_SECONDS)

    def _write_files(self) -> None:
        authority = as_openssl_makes_it()
        server = authority.issue("127.0.0.1", "localhost")
        self.ca.write_bytes(authority.pem)
        (self._directory / "server.pem").write_bytes(server.shown)
        (self._directory / "server.key").write_bytes(server.key_pem)
        admin = authority.issue("admin.test", name="admin", organization="system:masters")
        self.certificate.write_bytes(admin.shown)
        self.key.write_bytes(admin.key_pem)
        (self._directory / "tokens.csv").write_text(f'{self.token},admin,uid-admin,"system:masters"\n')
        names = {"cluster": "tests", "user": "admin"}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tests", "cluster": {"server": self.url, "certificate-authority": str(self.ca)}}],
            "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [{"name": "tests", "context": names}],
            "current-context": "tests",
        }
        self.kubeconfig.write_text(json.dumps(config), encoding="utf-8")


def _free_ports(count: int) -> Iterator[int]:
    # All at once, so that none is handed out twice.
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return iter([probe.getsockname()[1] for probe in probes])
    finally:
        for probe in probes:
            probe.close()


def _help(program: Path) -> bytes:
    ran = subprocess.run([program, "--help"], capture_output=True, check=False)
    return ran.stdout + ran.stderr


def _die_with_the_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

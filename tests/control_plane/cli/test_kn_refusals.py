"""The kn plugin before a cluster that can't be asked, or refuses: one sentence, with what to do, and its status.

A stand-in for the API server answers, since a real one does not fail to order.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.laptop.cli import Ran, run

LIST = ("channel", "list")
STRANGE = (b"<html>", b"[]", b'{"items": null}', b'{"items": [3]}', b'{"items": [{}]}', b"\xff", b"[" * 9999)
FORBIDDEN = 'natsjetstreamchannels.messaging.knative.dev is forbidden: User "u" cannot list resource'


def status(code: int, message: str) -> tuple[int, bytes]:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}
    return code, json.dumps(body).encode()


class StandIn:
    """Answers every request alike: a status and a body; None: by closing the connection; a number of bytes too few."""

    def __init__(self) -> None:
        self.says: tuple[int, bytes] | None = status(500, "not told what to say")
        self.missing = 0
        self.asked: list[str | None] = []
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                stand_in.asked.append(self.headers["authorization"])
                self.rfile.read(int(self.headers["content-length"] or 0))
                if stand_in.says is None:
                    self.close_connection = True
                    return
                code, body = stand_in.says
                self.send_response(code)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body) + stand_in.missing))
                self.end_headers()
                self.wfile.write(body)
                self.close_connection = True

            do_GET = do_POST = do_DELETE = answer

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> StandIn:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    with StandIn() as serving:
        yield serving


class Config:
    """Writes a kubeconfig, and asks with it."""

    def __init__(self, file: Path, server: str) -> None:
        self.file = file
        self.body: dict[str, Any] = {
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "prod", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "prod",
        }

    def __call__(self, *words: str, **members: Any) -> Ran:
        self.file.write_text(json.dumps({**self.body, **members}))
        return run(*words, "--kubeconfig", str(self.file))

    def program(self, script: str) -> list[dict[str, Any]]:
        """Users of whom a program gives the credentials."""
        version = "client.authentication.k8s.io/v1"
        named = {"apiVersion": version, "command": "sh", "args": ["-c", script], "interactiveMode": "Never"}
        return [{"name": "u", "user": {"exec": named}}]


@pytest.fixture
def kn(tmp_path: Path, stand_in: StandIn) -> Config:
    return Config(tmp_path / "kubeconfig", stand_in.url)


def one_sentence(ran: Ran, code: int) -> str:
    """Standard error, without the program's name and the server's address."""
    assert (ran.status, ran.out) == (code, ""), ran
    [line] = ran.err.splitlines()
    assert "Traceback" not in line
    assert "Error(" not in line
    return line.removeprefix("headrace: ")


@pytest.mark.parametrize(
    ("says", "told"),
    [
        pytest.param(
            status(401, "Unauthorized"),
            "the API server at {} does not know you: see to the credentials of the kubeconfig's user",
            id="401",
        ),
        pytest.param(
            status(403, FORBIDDEN),
            f"the API server at {{}}: {FORBIDDEN}; ask for these rights (docs/rbac.md), or take another --context",
            id="403",
        ),
        pytest.param(
            (404, b"404 page not found\n"),
            "the API server at {} serves no natsjetstreamchannels.messaging.knative.dev, version v1alpha1: is "
            "Headrace's CRD installed in that cluster?",
            id="no CRD",
        ),
        pytest.param(status(429, "too many"), "the API server at {}: too many", id="429"),
        pytest.param(status(500, "etcd is away"), "the API server at {}: etcd is away, status 500", id="500"),
        pytest.param((503, b"x" * 100_000), "the API server at {}: Service Unavailable, status 503", id="proxy"),
        pytest.param(
            None,
            "the API server at {} does not answer: Remote end closed connection without response; is that the cluster "
            "that is meant, and can it be reached?",
            id="cut off",
        ),
        *(
            pytest.param(
                (200, body),
                "{} answers with what no API server says: see to `server` in the kubeconfig",
                id=f"200 {body[:12].decode('latin-1')}",
            )
            for body in STRANGE
        ),
    ],
)  # fmt: skip
def test_what_the_api_server_says_is_told_with_what_to_do(
    kn: Config, stand_in: StandIn, says: tuple[int, bytes] | None, told: str
) -> None:
    stand_in.says = says
    assert one_sentence(kn(*LIST), 1) == told.format(stand_in.url)


def test_a_connection_that_breaks_in_the_middle_of_an_answer(kn: Config, stand_in: StandIn) -> None:
    stand_in.says, stand_in.missing = (200, b'{"items": ['), 100
    assert "does not answer: the connection broke off in the middle; is that" in one_sentence(kn(*LIST), 1)


@pytest.mark.parametrize(
    "words",
    [
        ("channel", "describe", "orders"),
        ("channel", "create", "orders"),
        ("channel", "delete", "orders", "--yes"),
        ("doctor", "-A"),
    ],
    ids=" ".join,
)
def test_a_kind_that_the_cluster_does_not_know_is_no_object_that_is_not_there(
    kn: Config, stand_in: StandIn, words: tuple[str, ...]
) -> None:
    stand_in.says = 404, b"404 page not found\n"
    assert "is Headrace's CRD installed in that cluster?" in one_sentence(kn(*words), 1)


def test_of_subscriptions_it_is_knative_that_is_not_there(kn: Config, stand_in: StandIn) -> None:
    stand_in.says = 404, b"404 page not found\n"
    assert "is Knative Eventing installed in that cluster?" in one_sentence(kn("subscription", "list"), 1)


def test_one_object_that_is_not_there_is_named(kn: Config, stand_in: StandIn) -> None:
    stand_in.says = status(404, 'natsjetstreamchannels.messaging.knative.dev "orders" not found')
    told = one_sentence(kn("channel", "describe", "orders"), 1)
    assert told == "there is no channel default/orders in this cluster"


def test_a_server_that_is_not_there(kn: Config) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        url = f"http://127.0.0.1:{gone.getsockname()[1]}"
    told = one_sentence(kn(*LIST, clusters=[{"name": "c", "cluster": {"server": url}}]), 1)
    assert told.startswith(f"the API server at {url} does not answer: Connection refused; is that the cluster")


def test_a_program_that_fails_is_told_in_its_words(kn: Config) -> None:
    told = "headrace: the program 'sh' gives no credentials: exec: process returned 3. log in again"
    ran = kn(*LIST, users=kn.program("echo log in again >&2; exit 3"))
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.splitlines()[-1] == told


def test_a_program_whose_token_is_refused_is_asked_once_more(kn: Config, stand_in: StandIn) -> None:
    stand_in.says = status(401, "Unauthorized")
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "T"}}
    ran = kn(*LIST, users=kn.program(f"echo '{json.dumps(credential)}'"))
    assert "does not know you" in one_sentence(ran, 1)
    assert stand_in.asked == ["Bearer T", "Bearer T"]


@pytest.mark.parametrize(
    ("members", "options", "told"),
    [
        ({}, ("--context", "staging"), "has no context 'staging': its contexts are 'prod'"),
        ({"current-context": ""}, (), "has no current-context, and none was named: its contexts are 'prod'"),
        ({"users": []}, (), "has no user 'u': it has no users"),
        ({"clusters": []}, (), "has no cluster 'c': it has no clusters"),
        ({"clusters": [{"name": "c", "cluster": {}}]}, (), "says nothing of the server of its cluster 'c'"),
    ],
)
def test_what_a_kubeconfig_lacks(kn: Config, members: Any, options: tuple[str, ...], told: str) -> None:
    assert one_sentence(kn(*LIST, *options, **members), 2) == f"KUBECONFIG {str(kn.file)!r} {told}"


def test_where_there_is_no_kubeconfig_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert one_sentence(run(*LIST, "--kubeconfig", str(tmp_path / "none")), 2).endswith(
        "can't be read: No such file or directory"
    )
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    told = one_sentence(run(*LIST, "--cluster"), 2)
    assert told == f"there is no kubeconfig ({tmp_path / 'none'}), and this is no pod: name one with --kubeconfig"

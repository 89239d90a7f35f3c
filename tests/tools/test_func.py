"""`func` itself on this repository: configured, run on the host in its own scaffold, called as docs/install.md says."""

from __future__ import annotations

import json
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.programs import go_programs, tool_binaries
from tests.support.nats.nats_server import NatsServer, free_port
from tests.support.nats.streams import Channel, Nats
from tests.support.programs import func, repository
from tests.support.programs.func import Func, Started
from tests.support.waiting import until

ORDERS = Channel("shop", "orders")
# The first of them waits for pip.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def tool(tmp_path: Path) -> Func:
    return Func(tmp_path)


def declared(tool: Func) -> dict[str, Any]:
    found = yaml.safe_load((tool.directory / "func.yaml").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def test_func_reads_our_func_yaml(tool: Func) -> None:
    envs, labels = func.commands("config")
    for one in declared(tool)["run"]["envs"]:
        assert f'Env "{one["name"]}" with value "{one["value"]}"' in tool.said(envs)
    assert tool.said(labels).strip() == "No labels defined"
    assert repository.changes(tool.directory) == ""


def test_what_func_config_adds_and_removes_is_only_that(tool: Func) -> None:
    before = declared(tool)
    tool.said("func config envs add --name LOG_LEVEL --value debug")
    tool.said("func config labels add --name team --value shop")
    after = declared(tool)
    assert after["run"]["envs"][-1] == {"name": "LOG_LEVEL", "value": "debug"}
    assert after["deploy"]["labels"] == [{"key": "team", "value": "shop"}]
    tool.said("func config envs remove --name LOG_LEVEL")
    tool.said("func config labels remove --name team")
    assert declared(tool) == before


def test_func_yaml_is_valid_by_funcs_own_schema() -> None:
    schema = go_programs.module_folder(tool_binaries.FUNC) / "schema" / "func_yaml-schema.json"
    check = ["uvx", "--from", "check-jsonschema>=0.31,<1", "check-jsonschema", "--schemafile", schema]
    done = subprocess.run([*check, repository.ROOT / "func.yaml"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_func_speaks_our_language(tool: Func) -> None:
    assert declared(tool)["runtime"] in tool.said("func languages").split()


def test_without_a_container_engine_func_says_so(tool: Func, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY", "registry.example/me")
    (deploy,) = func.commands("deploy")
    done = tool.ran(f"{deploy} --builder=pack")
    assert done.returncode == 1
    assert "docker" in done.stderr.lower()


@dataclass(frozen=True)
class Hosted:
    """`func run` with a channel's stream in a real NATS; what it is told is changed in the ports alone."""

    tool: Func
    started: Started
    nats: NatsServer
    port: int

    def invoked(self, command: str) -> subprocess.CompletedProcess[str]:
        return self.tool.ran(command.replace("127.0.0.1:8080", f"127.0.0.1:{self.port}"))


@pytest.fixture(scope="module")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    directory = tmp_path_factory.mktemp("func")
    server, port = NatsServer(directory / "nats").start(), free_port()
    tool = Func(directory)
    (command,) = func.commands("run")
    command = command.replace("127.0.0.1:8080", f"127.0.0.1:{port}").replace("nats://127.0.0.1:4222", server.url)
    try:
        with tool.running(f"{command} -e METRICS_PORT={free_port()}", until="Function running on") as started:
            yield Hosted(tool, started, server, port)
    finally:
        server.kill()


async def stored(nats: Nats) -> int:
    found = await nats.call(f"STREAM.INFO.{ORDERS.stream}")
    return int(found["state"]["messages"])


async def test_what_func_invoke_sends_is_stored_byte_for_byte(hosted: Hosted) -> None:
    async with Nats(hosted.nats.url) as nats:
        await nats.make_channel(ORDERS)
        binary, structured = func.commands("invoke")
        for command in (binary, structured):
            done = hosted.invoked(command)
            assert done.returncode == 0, done.stdout + done.stderr
        assert await stored(nats) == 2, hosted.started.log[-2000:]
        first, second = [await nats.client.jetstream().get_msg(ORDERS.stream, seq=number) for number in (1, 2)]
    assert (first.data, second.data) == (b'{"items": 3}', b'{"items": 4}')
    for message in (first, second):
        assert message.headers is not None
        assert (message.headers["ce-source"], message.headers["ce-type"]) == ("/me", "shop.order")


def test_what_func_invoke_gets_for_a_plain_post_and_for_a_target_without_a_channel(hosted: Hosted) -> None:
    plain = hosted.invoked("func invoke --target http://127.0.0.1:8080/shop/orders")
    assert (plain.returncode, "HTTP 400" in plain.stderr) == (1, True)
    nowhere = hosted.invoked("func invoke --target local")
    assert (nowhere.returncode, "HTTP 404" in nowhere.stderr) == (1, True)


def test_func_invoke_tells_no_refusal_of_an_event_but_the_log_does(hosted: Hosted) -> None:
    done = hosted.invoked("func invoke --target http://127.0.0.1:8080/shop/unknown --format cloudevent")
    assert done.returncode == 0
    refused = [json.loads(line) for line in hosted.started.log.splitlines() if '"refused"' in line]
    assert ("shop/unknown", 404) in [(line["channel"], line["status"]) for line in refused]


def test_the_probes_that_func_deploys_are_answered(hosted: Hosted) -> None:
    for path in declared(hosted.tool)["deploy"]["healthEndpoints"].values():
        with urllib.request.urlopen(f"http://127.0.0.1:{hosted.port}{path}", timeout=10) as answer:
            assert answer.status == 200


def test_func_run_leaves_the_checkout_as_it_was(hosted: Hosted) -> None:
    assert (hosted.tool.directory / ".func" / "runs" / str(hosted.port)).is_dir()
    assert repository.changes(hosted.tool.directory) == ""


async def test_ctrl_c_ends_func_run_and_the_function(hosted: Hosted) -> None:
    # The last test of this module: nothing runs afterwards.
    assert hosted.started.interrupt() == 0
    await until("nobody listens any more", lambda: not listening(hosted.port), 35)


def listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True

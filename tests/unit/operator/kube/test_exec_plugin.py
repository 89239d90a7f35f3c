"""Credentials from a program: when it is run, what it is told, and what becomes of what it says."""

from __future__ import annotations

import asyncio
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.core.errors import Misconfigured, Unavailable
from headrace_operator.kube.exec_plugin import ExecPlugin, parsed
from headrace_operator.kube.exec_spec import program
from tests.support.kube.exec_program import V1, ExecProgram
from tests.support.waiting import until

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
CLUSTER = {"server": "https://api:6443", "certificate-authority-data": "UEVN"}


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def given(tmp_path: Path) -> ExecProgram:
    return ExecProgram(tmp_path / "program")


def plugin(spec: dict[str, Any], clock: Clock | None = None, *, terminal: bool = False) -> ExecPlugin:
    return ExecPlugin(program(spec, CLUSTER), os.environ, terminal=terminal, now=clock or Clock())


async def test_a_token_is_kept_until_shortly_before_it_runs_out(given: ExecProgram) -> None:
    given.gives(token="one", expires=NOON + timedelta(minutes=15))
    given.gives(token="two", expires=NOON + timedelta(minutes=30))
    clock = Clock()
    asked = plugin(given.spec(), clock)
    assert (await asked.credential()).token == "one"
    clock.now = NOON + timedelta(minutes=13)
    assert (await asked.credential()).token == "one"
    clock.now = NOON + timedelta(minutes=14, seconds=30)
    assert (await asked.credential()).token == "two"
    assert given.runs == 2


async def test_one_run_serves_all_who_wait(given: ExecProgram) -> None:
    given.gives(token="one")
    asked = plugin(given.spec())
    tokens = await asyncio.gather(*(asked.credential() for _ in range(20)))
    assert {one.token for one in tokens} == {"one"}
    assert given.runs == 1


async def test_a_refused_token_is_asked_for_anew_but_not_with_every_request(given: ExecProgram) -> None:
    given.gives(token="revoked")
    given.gives(token="also revoked")
    given.gives(token="good")
    clock = Clock()
    asked = plugin(given.spec(), clock)
    first = await asked.credential()
    assert asked.refuse(first)
    second = await asked.credential()
    assert second.token == "also revoked"
    # Somebody else's answer to the request before: there is another already.
    assert asked.refuse(first)
    assert not asked.refuse(second)
    assert await asked.credential() is second
    clock.now += timedelta(seconds=11)
    assert asked.refuse(second)
    assert (await asked.credential()).token == "good"


async def test_while_a_token_is_still_good_a_program_that_fails_costs_nothing(given: ExecProgram) -> None:
    given.gives(token="one", expires=NOON + timedelta(minutes=5))
    given.does("echo no network >&2; exit 1")
    clock = Clock()
    asked = plugin(given.spec(), clock)
    await asked.credential()
    clock.now = NOON + timedelta(minutes=4, seconds=30)
    assert (await asked.credential()).token == "one"
    clock.now = NOON + timedelta(minutes=5)
    with pytest.raises(Unavailable, match="exit status 1: no network"):
        await asked.credential()


async def test_it_is_told_what_the_kubeconfig_says(given: ExecProgram) -> None:
    given.gives(token="one")
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}
    spec = given.spec(
        args=["get-token", "--cluster", "c"], env=[{"name": "PROFILE", "value": "ops"}], provideClusterInfo=True
    )
    asked = ExecPlugin(program(spec, {**CLUSTER, "extensions": [extension]}), os.environ, terminal=False)
    await asked.credential()
    assert given.told == "get-token --cluster c|ops"
    assert given.info == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {**CLUSTER, "config": {"audience": "a"}}},
    }


@pytest.mark.parametrize(
    ("mode", "terminal", "interactive"),
    [("Never", True, False), ("IfAvailable", True, True), ("IfAvailable", False, False), ("Always", True, True)],
)
async def test_it_knows_whether_it_may_ask(given: ExecProgram, mode: str, terminal: bool, interactive: bool) -> None:
    given.gives(token="one")
    await plugin(given.spec(interactiveMode=mode), terminal=terminal).credential()
    assert given.info["spec"] == {"interactive": interactive}


async def test_v1beta1_is_spoken(tmp_path: Path) -> None:
    older = ExecProgram(tmp_path / "older", "client.authentication.k8s.io/v1beta1")
    older.gives(token="one")
    assert (await plugin(older.spec()).credential()).token == "one"
    assert older.info["apiVersion"] == "client.authentication.k8s.io/v1beta1"


async def test_a_certificate_is_a_credential(given: ExecProgram) -> None:
    given.gives(clientCertificateData="CERT", clientKeyData="KEY")
    found = await plugin(given.spec()).credential()
    assert (found.token, found.certificate, found.key) == ("", "CERT", "KEY")
    assert "KEY" not in repr(found)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        pytest.param("echo secret-token", "wrote what is no ExecCredential", id="no JSON"),
        pytest.param('echo \'{"apiVersion": "v0", "status": {"token": "t"}}\'', "speaks 'v0'", id="version"),
        pytest.param(f'echo \'{{"apiVersion": "{V1}", "status": {{}}}}\'', "neither token nor", id="nothing in it"),
        pytest.param(
            f'echo \'{{"apiVersion": "{V1}", "status": {{"clientKeyData": "k"}}}}\'',
            "only one of clientCertificateData and clientKeyData",
            id="half a certificate",
        ),
        pytest.param("echo first >&2; echo sign in again >&2; exit 7", "status 7: first sign in again", id="failure"),
    ],
)
async def test_what_is_no_credential_is_told_without_quoting_it(given: ExecProgram, script: str, words: str) -> None:
    given.does(script)
    with pytest.raises(Unavailable, match=words) as told:
        await plugin(given.spec()).credential()
    assert "secret-token" not in str(told.value)


def written(**status: object) -> bytes:
    return json.dumps({"apiVersion": V1, "status": status}).encode()


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_token_may_end_with_one_line_end(end: str) -> None:
    assert parsed(written(token=f"good{end}"), program({"apiVersion": V1, "command": "c"}, {})).token == "good"


@pytest.mark.parametrize(
    "output",
    [
        pytest.param(written(token="secret\n\n"), id="two line ends"),
        pytest.param(written(token="secret\r\nInjected: yes"), id="a header of its own"),
        pytest.param(written(token="secret\x00"), id="NUL"),
        pytest.param(written(token="secret\x7f"), id="DEL"),
        pytest.param(written(token="secrét"), id="not ASCII"),
        pytest.param(b"[" * 200_000, id="too deep"),
        pytest.param(b'{"secret": \xff}', id="no UTF-8"),
    ],
)
def test_a_token_that_no_request_can_carry_is_told_without_quoting_it(output: bytes) -> None:
    with pytest.raises(Unavailable) as told:
        parsed(output, program({"apiVersion": V1, "command": "c"}, {}))
    assert "secr" not in str(told.value)
    assert told.value.__cause__ is None


async def test_credentials_that_have_run_out_are_told_and_the_program_is_not_run_for_each_who_asks(
    given: ExecProgram,
) -> None:
    given.gives(token="old", expires=NOON - timedelta(minutes=1))
    given.gives(token="new")
    clock = Clock()
    asked = plugin(given.spec(), clock)
    for _ in range(3):
        with pytest.raises(Unavailable, match="ran out at 2026-01-31 11:59:00"):
            await asked.credential()
    assert given.runs == 1
    clock.now += timedelta(seconds=6)
    assert (await asked.credential()).token == "new"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        pytest.param("x", r"user\.exec is 'x'", id="text"),
        pytest.param([1], r"user\.exec is \[1\]", id="a list"),
        pytest.param(5, r"user\.exec is 5", id="a number"),
        pytest.param({"command": ["a"]}, r"exec\.command is \['a'\]", id="a command of several words"),
        pytest.param({"args": "abc"}, r"exec\.args is 'abc': give a list", id="arguments as text"),
        pytest.param({"args": 5}, r"exec\.args is 5: give a list", id="arguments as a number"),
        pytest.param({"args": ["a", 5]}, r"exec\.args\[1\] is 5", id="a number as argument"),
        pytest.param({"args": ["a\0"]}, r"exec\.args\[0\] .*NUL", id="NUL in an argument"),
        pytest.param({"args": ["\ud800"]}, r"exec\.args\[0\] ", id="half a character in an argument"),
        pytest.param({"env": {"A": "B"}}, r"exec\.env is ", id="variables as a mapping"),
        pytest.param({"env": ["A=B"]}, r"exec\.env\[0\] is 'A=B'", id="a variable as text"),
        pytest.param({"env": [{"value": "B"}]}, r"exec\.env\[0\]\.name is ''", id="a variable without a name"),
        pytest.param({"env": [{"name": "A=B"}]}, r"exec\.env\[0\]\.name is 'A=B'", id="= in a name"),
        pytest.param({"env": [{"name": "A", "value": "\0"}]}, r"exec\.env\[0\]\.value .*NUL", id="NUL in a value"),
    ],
)
def test_what_makes_no_sense_names_its_field(spec: Any, words: str) -> None:
    whole = {"apiVersion": V1, "command": "c", **spec} if isinstance(spec, dict) else spec
    with pytest.raises(Misconfigured, match=words):
        program(whole, {})


@pytest.mark.parametrize(
    "cluster",
    [
        pytest.param({"extensions": ["x"]}, id="text"),
        pytest.param({"extensions": 5}, id="a number"),
        pytest.param({"extensions": [{"name": "client.authentication.k8s.io/exec", "extension": NOON}]}, id="a date"),
        pytest.param({"extensions": [{"name": "client.authentication.k8s.io/exec", "extension": b"x"}]}, id="bytes"),
    ],
)
def test_what_the_program_can_not_be_told_names_its_field(cluster: dict[str, Any]) -> None:
    with pytest.raises(Misconfigured, match=r"clusters\[\]\.cluster\.extensions is "):
        program({"apiVersion": V1, "command": "c", "provideClusterInfo": True}, cluster)


def test_a_variable_without_a_value_is_empty() -> None:
    spec = {"apiVersion": V1, "command": "c", "env": [{"name": "A", "value": None}], "args": None}
    assert program(spec, {}).variables == {"A": ""}


def test_a_program_that_is_not_there_is_told_with_its_hint(tmp_path: Path) -> None:
    spec = {"apiVersion": V1, "command": "gke-plugin-of-nobody", "installHint": "install it so\n"}
    with pytest.raises(Misconfigured, match=r"'gke-plugin-of-nobody', which is not there: .* install it so"):
        plugin(spec)
    with pytest.raises(Misconfigured, match="which is not there"):
        plugin({**spec, "command": str(tmp_path / "nowhere")})


def test_one_that_must_ask_needs_somebody_to_ask(given: ExecProgram) -> None:
    with pytest.raises(Misconfigured, match="interactiveMode Always"):
        plugin(given.spec(interactiveMode="Always"))


async def test_a_run_that_nobody_waits_for_any_more_is_ended(given: ExecProgram, tmp_path: Path) -> None:
    given.does(f"echo $$ > {tmp_path}/pid; exec sleep 600")
    waiting = asyncio.create_task(plugin(given.spec()).credential())
    await until("it runs", lambda: (tmp_path / "pid").exists() and bool((tmp_path / "pid").read_text().strip()), 60.0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)

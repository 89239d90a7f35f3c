"""Wrong options for the way to NATS: told on the driver, soon, and by the option's name.

Soon means within seconds, where a task would wait for its whole `timeout`, since a server may come back.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from headrace.core.errors import HeadraceError
from pyspark_jetstream.batch_reader import BatchReader
from pyspark_jetstream.client import Access, BlockingApi, Connection, Secret
from pyspark_jetstream.options import read_options
from pyspark_jetstream.stream_reader import StreamReader
from pyspark_jetstream.writing.options import write_options
from pyspark_jetstream.writing.writers import look
from tests.support.nats.nats_certificates import Certificates
from tests.support.nats.nats_identities import Operator, user_key
from tests.support.nats.nats_server import NatsServer, free_port

SCHEMA = StructType([StructField("data", BinaryType())])
# Far more than any case takes on busy cores, and far less than the time-out that would have to pass.
TIMEOUT_SECONDS = 3600
SOON_SECONDS = 120.0

ACCOUNTS = """
accounts {{
  A {{ jetstream: enabled, users: [
    {{ user: a, password: right }},
    {{ nkey: {nkey} }},
    {{ user: mute, password: right, permissions: {{ publish: {{ deny: "$JS.API.>" }} }} }},
    {{ user: deaf, password: right, permissions: {{ subscribe: {{ deny: "_INBOX.>" }} }} }}
  ] }}
  OTHER {{ jetstream: enabled, users: [{{ user: other, password: right }}] }}
  PLAIN {{ users: [{{ user: plain, password: right }}] }}
}}
"""


@dataclass
class Servers:
    """Addresses of servers of several kinds, and files, by the names that the cases write in braces."""

    values: dict[str, str]

    def options(self, given: dict[str, str]) -> dict[str, str]:
        return {name: value.format_map(self.values) for name, value in given.items()}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    folder = tmp_path_factory.mktemp("access")
    made = Certificates(folder / "tls")
    with socket.socket() as mute, pytest.MonkeyPatch.context() as environment:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        environment.setenv("RIGHT", "right")
        environment.setenv("WRONG", "wrong")
        users = NatsServer(folder / "users", config=ACCOUNTS.format(nkey=user_key().public))
        tokens = NatsServer(folder / "tokens", config="authorization { token: right }")
        tls = NatsServer(folder / "verified", config=made.config(verify=True))
        operator = Operator()
        operated = NatsServer(folder / "operated", config=operator.config)
        started: list[NatsServer] = []
        try:
            for one in (users, tokens, tls, operated):
                started.append(one)
                one.start()
            with Connection(Access(users.url, user="a", password=Secret("", variable="RIGHT"))) as connection:
                BlockingApi(connection).call("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "storage": "memory"})
            yield Servers(
                {
                    "users": users.url,
                    "tokens": tokens.url,
                    "tls": tls.url,
                    "operated": operated.url,
                    "mute": f"nats://127.0.0.1:{mute.getsockname()[1]}",
                    "nobody": f"nats://127.0.0.1:{free_port()}",
                    "ca": made.ca,
                    "other_ca": Certificates(folder / "other").ca,
                    "strangers_creds": _file(folder, "creds", Operator().credentials()),
                    "strangers_seed": _file(folder, "seed", user_key().seed),
                    "no_account": _file(folder, "own", operator.credentials()),
                }
            )
        finally:
            for one in started:
                one.kill()


def _file(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


A = {"servers": "{users}", "user": "a", "passwordEnv": "RIGHT"}

WRONG = [
    pytest.param({**A, "domain": "nowhere"}, r"at \$JS\.nowhere\.API: is the option domain or apiPrefix", id="domain"),
    pytest.param({**A, "apiPrefix": "JS.none.API"}, "is the option domain or apiPrefix right", id="API prefix"),
    pytest.param({**A, "servers": "{nobody}"}, "can't be reached.*Connection refused.*check servers", id="port"),
    pytest.param({**A, "servers": "{mute}"}, "does not greet us as NATS does.*check the port", id="port of others"),
    pytest.param({**A, "passwordEnv": "WRONG"}, r"check user \(a\) and passwordEnv", id="password"),
    pytest.param({"servers": "{users}"}, "check credsFile, nkeySeedFile, user or tokenFile: none", id="no identity"),
    pytest.param({"servers": "{tokens}", "tokenEnv": "WRONG"}, "check tokenEnv", id="token"),
    pytest.param({"servers": "{users}", "nkeySeedFile": "{strangers_seed}"}, "check nkeySeedFile", id="nkey"),
    pytest.param({"servers": "{operated}", "credsFile": "{strangers_creds}"}, "check credsFile", id="creds"),
    pytest.param({"servers": "{operated}", "credsFile": "/not/there"}, "credsFile is '/not/there'", id="no creds"),
    pytest.param({"servers": "{operated}", "credsFile": "{no_account}"}, "account of credsFile", id="creds of others"),
    pytest.param({**A, "user": "plain"}, r"check servers, and the account of user \(plain\)", id="no JetStream"),
    pytest.param({**A, "user": "mute"}, r"permissions of the user, user \(mute\)", id="may not publish"),
    pytest.param({**A, "user": "deaf"}, r"permissions of the user, user \(deaf\)", id="may not subscribe"),
    pytest.param({**A, "tlsCaFile": "{ca}"}, "TLS is asked for, but .* check servers and tlsCaFile", id="no TLS there"),
    pytest.param({**A, "tlsFirst": "true"}, "check tlsFirst", id="TLS is not first"),
    pytest.param({"servers": "{tls}", "tlsCaFile": "{other_ca}"}, "not trusted .*check tlsCaFile", id="another CA"),
    pytest.param({"servers": "{tls}"}, "not trusted .*check tlsCaFile", id="no CA"),
    pytest.param({"servers": "{tls}", "tlsCaFile": "{ca}"}, "check tlsCertFile", id="no certificate"),
    pytest.param({"servers": "{tls}", "tlsCaFile": "/not/there"}, "check tlsCaFile", id="no such CA"),
]


def read(given: dict[str, str]) -> None:
    BatchReader(read_options(_lower({"stream": "S", **given}), {}, streaming=False), SCHEMA).partitions()


def stream(given: dict[str, str]) -> None:
    reader = StreamReader(read_options(_lower({"stream": "S", **given}), {}, streaming=True), SCHEMA)
    try:
        reader.initialOffset()
    finally:
        reader.stop()


def write_to(given: dict[str, str]) -> None:
    look(write_options(_lower({"subject": "s.a", **given}), {}, streaming=False))


def _lower(given: dict[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in {"timeout": str(TIMEOUT_SECONDS), **given}.items()}


@pytest.mark.parametrize("ask", [read, stream, write_to])
def test_what_is_right_is_taken(servers: Servers, ask: object) -> None:
    assert callable(ask)
    ask(servers.options(A))


@pytest.mark.parametrize(("given", "words"), WRONG)
def test_a_batch_read_tells_soon(servers: Servers, given: dict[str, str], words: str) -> None:
    told(servers, read, given, words)


@pytest.mark.parametrize(("given", "words"), [WRONG[0], WRONG[2], WRONG[4]])
@pytest.mark.parametrize("ask", [stream, write_to])
def test_so_do_a_streaming_query_and_a_sink(servers: Servers, ask: object, given: dict[str, str], words: str) -> None:
    told(servers, ask, given, words)


@pytest.mark.parametrize(
    ("ask", "given", "words"),
    [
        pytest.param(read, {"stream": "NONE"}, "option stream is 'NONE'", id="stream"),
        pytest.param(read, {"user": "other"}, "option stream is 'S': .*check its name, and the account", id="account"),
        pytest.param(stream, {"stream": "NONE"}, "option stream is 'NONE'", id="stream of a query"),
        pytest.param(write_to, {"subject": "none.a"}, "no stream captures the subject 'none.a'", id="subject"),
        pytest.param(write_to, {"user": "other"}, "no stream captures the subject 's.a'", id="account of a sink"),
    ],
)
def test_what_is_not_there_is_told_soon(servers: Servers, ask: object, given: dict[str, str], words: str) -> None:
    told(servers, ask, {**A, **given}, words)


def told(servers: Servers, ask: object, given: dict[str, str], words: str) -> None:
    assert callable(ask)
    began = time.monotonic()
    with pytest.raises(HeadraceError, match=words):
        ask(servers.options(given))
    assert time.monotonic() - began < SOON_SECONDS

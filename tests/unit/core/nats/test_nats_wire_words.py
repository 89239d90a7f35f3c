"""The NATS protocol in single words: headers, refusals, server errors, credentials."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from headrace.core.errors import Misconfigured, Refused
from headrace.core.nats.nats_wire import (
    CRLF,
    NO_HEADERS,
    VERSION,
    Arrival,
    Credentials,
    Decoder,
    ErrorCost,
    Headers,
    ServerError,
    can_carry,
    connect,
    header_block,
    publish,
    question_line,
    read_credentials,
    subscribe,
    unsubscribe,
)

ROOM = 1024 * 1024


def arrived(block: bytes) -> Arrival:
    [arrival] = Decoder().feed(b"HMSG a 1 %d %d\r\n%b\r\n" % (len(block), len(block), block))
    assert isinstance(arrival, Arrival)
    return arrival


@pytest.mark.parametrize(
    ("block", "headers"),
    [
        pytest.param(b"NATS/1.0\r\nCe-Id: 1\r\n\r\n", {"ce-id": "1"}, id="names come in lower case"),
        pytest.param(
            b"NATS/1.0\r\na:1\r\nb: \t2 \r\nc:\r\n\r\n", {"a": "1", "b": "2", "c": ""}, id="blanks are optional"
        ),
        pytest.param(b"NATS/1.0\r\nA: 1\r\na: 2\r\n\r\n", {"a": "1"}, id="the first of two counts"),
        pytest.param(b"NATS/1.0\r\na: b: c\r\n\r\n", {"a": "b: c"}, id="a value may have colons"),
        pytest.param("NATS/1.0\r\na: é\u2028ü\r\n\r\n".encode(), {"a": "é\u2028ü"}, id="only CR LF ends a line"),
        pytest.param(b"NATS/1.0\r\na: \xff\r\n\r\n", {"a": "\udcff"}, id="bytes that are no UTF-8 are kept"),
        pytest.param(
            b"NATS/1.0\r\nno colon\r\n: no name\r\na: 1\r\n\r\n", {"a": "1"}, id="what is no header is left out"
        ),
        pytest.param(b"something else entirely", {}, id="what is no header block has no headers"),
        pytest.param(b"NATS/1.0", {}, id="a block that stops short"),
    ],
)
def test_headers_are_read_and_a_faulty_block_costs_nothing_but_itself(block, headers):
    assert arrived(block).headers == headers


@pytest.mark.parametrize(
    ("block", "status", "description"),
    [
        (b"NATS/1.0 503\r\n\r\n\r\n", "503", ""),
        (b"NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 1\r\n\r\n", "408", "Request Timeout"),
        (b"NATS/1.0 100 Idle Heartbeat\r\n\r\n", "100", "Idle Heartbeat"),
        (b"NATS/1.0\r\na: 503\r\n\r\n", "", ""),
        (b"HTTP/1.1 503 No\r\n\r\n", "", ""),
    ],
)
def test_the_status_is_on_the_first_line(block, status, description):
    assert (arrived(block).status, arrived(block).description) == (status, description)


def test_headers_are_a_mapping():
    headers = Headers(header_block({"ce-id": "1", "ce-type": "t"}))
    assert (len(headers), list(headers), headers["ce-id"], headers.get("none")) == (2, ["ce-id", "ce-type"], "1", None)
    assert dict(headers.items()) == {"ce-id": "1", "ce-type": "t"}
    assert repr(headers) == "Headers({'ce-id': '1', 'ce-type': 't'})"
    assert not NO_HEADERS


def test_bytes_that_are_no_utf_8_go_out_as_they_came_in():
    block = b"NATS/1.0\r\na: \xff\xfe\r\n\r\n"
    assert header_block(arrived(block).headers) == block


def test_a_message_without_headers_is_a_plain_publish():
    assert publish("a.b", b"hello", "", None, ROOM) == b"PUB a.b 5\r\nhello\r\n"
    assert publish("a.b", b"", "inbox.1", {}, ROOM) == b"PUB a.b inbox.1 0\r\n\r\n"


def test_a_block_that_is_encoded_already_goes_out_as_it_is():
    block = header_block({"Nats-Msg-Id": "1"})
    assert publish("a", b"hi", "r", block, ROOM) == b"HPUB a r 28 30\r\nNATS/1.0\r\nNats-Msg-Id: 1\r\n\r\nhi\r\n"


@pytest.mark.parametrize("subject", ["", "a b", "a\tb", "a\r\nPUB b 0\r\n", "a\n", " a", "a\x00", "a\u2028b"])
def test_a_subject_that_would_end_early_is_refused(subject):
    for encode in (
        lambda: publish(subject, b"", "", None, ROOM),
        lambda: publish(subject, b"", "inbox.1", {"a": "1"}, ROOM),
        lambda: subscribe(subject, 1),
    ):
        with pytest.raises(Refused) as refused:
            encode()
        assert refused.value.status == 400


def test_a_reply_that_would_end_early_is_refused():
    with pytest.raises(Refused, match="not legal"):
        publish("a", b"", "inbox 1", None, ROOM)


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"a": "1\r\nb: 2"}, id="a line break in a value"),
        pytest.param({"ce-id": "1\n"}, id="half a line break in a value"),
        pytest.param({"ce-id": "\r"}, id="the other half"),
        pytest.param({"ce-id": "1\0"}, id="a NUL in a value"),
        pytest.param({"a\0": "1"}, id="a NUL in a name"),
        pytest.param({"a\r\n": "1"}, id="a line break in a name"),
        pytest.param({"a:b": "1"}, id="a colon in a name"),
        pytest.param({"a b": "1"}, id="a blank in a name"),
        pytest.param({"": "1"}, id="no name"),
        pytest.param({"ä": "1"}, id="a name that is not ASCII"),
        pytest.param({"a": "\ud800"}, id="half a character"),
    ],
)
def test_a_header_that_would_become_another_is_refused(headers):
    with pytest.raises(Refused) as refused:
        header_block(headers)
    assert refused.value.status == 400
    assert not any(can_carry(*header) for header in headers.items())


def test_a_refused_header_keeps_its_value_to_itself():
    for headers in ({"a": "secret\n"}, {"a b": "secret"}, {"b" * 99: "secret\r"}):
        with pytest.raises(Refused) as refused:
            header_block(headers)
        assert "secret" not in str(refused.value)
        assert len(str(refused.value)) < 160


def test_more_than_the_server_takes_is_refused_headers_included():
    block = header_block({"a": "1"})
    assert publish("a", b"x" * (100 - len(block)), "", {"a": "1"}, 100)
    with pytest.raises(Refused, match="101 bytes exceeds the server's max_payload of 100") as refused:
        publish("a", b"x" * (101 - len(block)), "", {"a": "1"}, 100)
    assert refused.value.status == 413


def test_a_question_whose_line_is_made_beforehand_is_the_same_publish():
    block = header_block({"ce-id": "1"})
    # NATS takes a percent sign in a subject.
    line = question_line("shop.100%d", "_INBOX.x.")
    pieces = line % (b"17", len(block), len(block) + 4), block, b"data", CRLF
    assert b"".join(pieces) == publish("shop.100%d", b"data", "_INBOX.x.17", block, ROOM)


@pytest.mark.parametrize("subject", ["", "two words", "a\r\nPUB b 0", "a" * 4070])
def test_the_line_of_a_question_is_refused_as_a_publish_is(subject):
    with pytest.raises(Refused):
        question_line(subject, "_INBOX.x.")


def test_a_subject_longer_than_the_servers_line_is_refused():
    with pytest.raises(Refused, match="has 5000 characters") as refused:
        publish("a" * 5000, b"", "", None, ROOM)
    assert refused.value.status == 413


def test_subscriptions_come_and_go_by_number():
    assert (subscribe("a.>", 12), unsubscribe(12)) == (b"SUB a.> 12\r\n", b"UNSUB 12\r\n")


def test_connect_says_what_we_are_able_to_do_and_who_we_are():
    line = connect({"name": "headrace", "user": "me", "pass": "secret"})
    assert line.startswith(b"CONNECT {")
    assert line.endswith(b"}\r\n")
    fields = json.loads(line[len("CONNECT ") :])
    assert fields == {
        "verbose": False, "pedantic": False, "headers": True, "no_responders": True, "protocol": 1, "echo": True,
        "lang": "python", "version": VERSION, "name": "headrace", "user": "me", "pass": "secret",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "severity", "subject"),
    [
        ('Permissions Violation for Publish to "a.b"', ErrorCost.OPERATION, "a.b"),
        ('Permissions Violation for Subscription to "a.>"', ErrorCost.OPERATION, None),
        ("Invalid Subject", ErrorCost.OPERATION, None),
        ("maximum subscriptions exceeded", ErrorCost.OPERATION, None),
        ("Authorization Violation", ErrorCost.IDENTITY, None),
        ("User Authentication Expired", ErrorCost.IDENTITY, None),
        ("Account Authentication Expired", ErrorCost.IDENTITY, None),
        ("User Authentication Revoked", ErrorCost.IDENTITY, None),
        ("Authentication Timeout", ErrorCost.IDENTITY, None),
        ("Stale Connection", ErrorCost.CONNECTION, None),
        ("Maximum Payload Violation", ErrorCost.CONNECTION, None),
        ("Slow Consumer", ErrorCost.CONNECTION, None),
        ("something new", ErrorCost.CONNECTION, None),
    ],
)
def test_the_words_of_the_server_tell_what_an_error_costs(words, severity, subject):
    assert Decoder().feed(f"-ERR '{words}'\r\n".encode()) == [ServerError(words)]
    assert (ServerError(words).severity, ServerError(words).refused_subject) == (severity, subject)


JWT = "eyJ0eXAiOiJKV1QifQ.eyJqdGkiOiIxIn0.c2ln-_0"
SEED = "SUAEXAMPLEEXAMPLEEXAMPLEEXAMPLEEXAMPLEEXAMPLEEXAMPLEEXAMPLE"
CREDS = f"""-----BEGIN NATS USER JWT-----
{JWT}
------END NATS USER JWT------

************************* IMPORTANT *************************
NKEY Seed printed below can be used to sign and prove identity.

-----BEGIN USER NKEY SEED-----
{SEED}
------END USER NKEY SEED------
"""


@pytest.mark.parametrize(
    ("text", "credentials"),
    [
        pytest.param(CREDS, Credentials(JWT, SEED), id="a credentials file"),
        pytest.param(CREDS.replace("\n", "\r\n"), Credentials(JWT, SEED), id="written on Windows"),
        pytest.param(CREDS.split("*")[0], Credentials(JWT, ""), id="a bearer JWT alone"),
        pytest.param(f"{SEED}\n", Credentials("", SEED), id="a bare seed"),
        pytest.param(f"# our key\n  {SEED}  ", Credentials("", SEED), id="a seed with a comment"),
        pytest.param(CREDS[CREDS.index("-----BEGIN USER") :], Credentials("", SEED), id="a seed between dashes"),
    ],
)
def test_credentials_are_found_in_their_file(text, credentials):
    assert read_credentials(text, origin="NATS_CREDS_FILE") == credentials


def test_a_file_without_credentials_is_refused_and_secrets_are_not_shown():
    with pytest.raises(Misconfigured, match="NATS_CREDS_FILE holds neither a JWT nor an nkey seed") as refused:
        read_credentials("hello", origin="NATS_CREDS_FILE")
    assert refused.value.field == "NATS_CREDS_FILE"
    assert repr(Credentials(JWT, SEED)) == "Credentials()"


def test_the_version_is_that_of_the_project():
    project = tomllib.loads(Path(__file__).parents[4].joinpath("pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["version"] == VERSION

"""Options of the Spark source: the values that are taken, and refusals with their words."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from headrace.core.errors import Misconfigured
from pyspark_jetstream.client import Access, Secret
from pyspark_jetstream.options import ChannelName, ReadOptions, StreamPosition, read_options

HALF_PAST_NINE = 1_769_851_800_500_000_000
SERVERS = {"servers": "nats://nats.example:4222"}


def options(environment: dict[str, str] | None = None, *, streaming: bool = False, **given: str) -> ReadOptions:
    return read_options({"stream": "EV", **SERVERS, **given}, environment or {}, streaming=streaming)


def test_what_is_not_said_has_a_default() -> None:
    found = options()
    assert found.access == Access("nats://nats.example:4222")
    assert (found.streams, found.channels, found.subjects) == (("EV",), (), ())
    assert (found.starting, found.ending) == (StreamPosition("earliest"), StreamPosition("latest"))
    assert (found.min_partitions, found.max_per_partition) == (1, 100_000)
    assert (found.include_headers, found.include_replays, found.fail_on_data_loss) == (True, False, True)
    assert (found.start_over, found.mode, found.cloudevents, found.parse_mode) == (False, "", False, "PERMISSIVE")


def test_a_streaming_query_begins_with_what_is_to_come() -> None:
    assert options(streaming=True).starting == StreamPosition("latest")


def test_names_are_taken_in_any_case() -> None:
    found = read_options(
        {
            "STREAM": "EV",
            "Servers": "a:1",
            "includeheaders": "FALSE",
            "PARSEMODE": "failfast",
            "CloudEvents": "true",
        },
        {},
        streaming=False,
    )
    assert (found.streams, found.include_headers, found.parse_mode) == (("EV",), False, "FAILFAST")


@pytest.mark.parametrize(
    ("given", "prefix"),
    [
        ({}, "$JS.API"),
        ({"domain": "hub"}, "$JS.hub.API"),
        ({"apiPrefix": "JS.other.API"}, "JS.other.API"),
    ],
)
def test_jetstream_is_asked_in_its_domain(given: dict[str, str], prefix: str) -> None:
    assert options(**given).access.api_prefix == prefix


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({"startingOffsets": "earliest"}, StreamPosition("earliest"), id="a word"),
        pytest.param({"startingSequence": "12"}, StreamPosition("earliest", sequence=12), id="a sequence"),
        pytest.param(
            {"startingTimestamp": "2026-01-31T09:30:00.5Z"},
            StreamPosition("earliest", time_ns=HALF_PAST_NINE),
            id="a time",
        ),
        pytest.param(
            {"startingTimestamp": "2026-01-31T10:30:00.5+01:00"},
            StreamPosition("earliest", time_ns=HALF_PAST_NINE),
            id="a time elsewhere",
        ),
        pytest.param(
            {"startingTimestamp": "1769851800500"},
            StreamPosition("earliest", time_ns=HALF_PAST_NINE),
            id="milliseconds",
        ),
        pytest.param(
            {"startingOffsets": '{"EV": 7, "B": -2}'},
            StreamPosition("earliest", by_stream={"EV": 7, "B": "earliest"}),
            id="by stream",
        ),
    ],
)
def test_where_to_start(given: dict[str, str], expected: StreamPosition) -> None:
    assert options(**given).starting == expected


def test_an_ending_sequence_is_read_and_an_ending_offset_is_not() -> None:
    assert options(endingSequence="10").ending == StreamPosition("latest", sequence=11)
    assert options(endingOffsets='{"EV": 10}').ending == StreamPosition("latest", by_stream={"EV": 10})


def test_several_streams_channels_and_subjects_come_with_commas_or_as_json() -> None:
    found = options(streams='["B", "EV"]', channels="demo/orders, demo/audit", subject="a.*,b.>,a.b")
    assert found.streams == ("EV", "B")
    assert found.channels == (ChannelName("demo", "orders"), ChannelName("demo", "audit"))
    # What another filter includes would be refused by the server.
    assert found.subjects == ("a.*", "b.>")


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        ({"startingofset": "earliest"}, "startingofset", "did you mean startingOffsets"),
        ({"xyzzy": "EV"}, "xyzzy", "known are"),
        ({"path": "EV"}, "path", "load() takes no path: name what is read in the option stream or channel"),
        ({"stream": "EV.1"}, "stream", "'EV.1'"),
        ({"channel": "orders"}, "channel", "namespace/name"),
        ({"channel": "demo/Orders"}, "channel", "namespace/name"),
        ({"subject": "a..b"}, "subject", "'a..b'"),
        ({"subject": "a.>.b"}, "subject", "'a.>.b'"),
        ({"startingOffsets": "latest"}, "startingOffsets", "reads nothing: write earliest"),
        ({"startingOffsets": '{"EV": "latest"}'}, "startingOffsets", "reads nothing"),
        ({"startingOffsets": '{"EV": 0}'}, "startingOffsets", "sequences start at 1, and EV has 0"),
        ({"startingOffsets": '{"EV": -3}'}, "startingOffsets", "sequences start at 1, and EV has -3"),
        ({"startingOffsets": '{"EV": true}'}, "startingOffsets", "by stream"),
        ({"startingOffsets": "7"}, "startingOffsets", "earliest, latest, or JSON"),
        ({"endingOffsets": "earliest"}, "endingOffsets", "reads nothing"),
        ({"startingSequence": "0"}, "startingSequence", "whole number of at least 1"),
        ({"startingSequence": "7", "startingTimestamp": "1"}, "startingTimestamp", "startingSequence is given, too"),
        ({"startingTimestamp": "2026-01-31T09:30:00"}, "startingTimestamp", "with its offset"),
        ({"minPartitions": "many"}, "minPartitions", "'many'"),
        ({"includeHeaders": "yes"}, "includeHeaders", "true or false"),
        ({"mode": "push"}, "mode", "pull, direct"),
        ({"parseMode": "STRICT", "cloudevents": "true"}, "parseMode", "PERMISSIVE"),
        ({"timeout": "-1"}, "timeout", "'-1'"),
        ({"domain": "a.b"}, "domain", "one word"),
        ({"domain": "hub", "apiPrefix": "JS.API"}, "apiPrefix", "domain is given"),
        ({"apiPrefix": "JS.*.API"}, "apiPrefix", "begin with"),
        ({"servers": "http://a"}, "servers", "nats://host:port"),
        ({"maxMessagesPerTrigger": "5"}, "maxMessagesPerTrigger", "no trigger: leave it out, and bound the batch by"),
        ({"startingTimestamp": "1795874400"}, "startingTimestamp", "are these seconds?"),
        ({"endingTimestamp": "1795874400"}, "endingTimestamp", "are these seconds?"),
        ({"parseMode": "FAILFAST"}, "parseMode", "set cloudevents to true"),
        ({"onStreamRecreated": "startOver"}, "onStreamRecreated", "for streaming queries"),
        (
            {"startingSequence": "100", "endingSequence": "50"},
            "endingSequence",
            "is '50': it is before startingSequence (100)",
        ),
        (
            {"startingTimestamp": "2026-01-31T09:30:00Z", "endingTimestamp": "2026-01-31T09:29:00Z"},
            "endingTimestamp",
            "before startingTimestamp",
        ),
        (
            {"startingOffsets": '{"EV": 8}', "endingOffsets": '{"EV": 7}'},
            "endingOffsets",
            "before startingOffsets",
        ),
    ],
)
def test_a_wrong_option_is_named_and_quoted(given: dict[str, str], field: str, words: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        options(**given)
    assert refused.value.field == field
    assert words in str(refused.value)


def test_a_part_may_be_of_one_message_or_empty() -> None:
    assert options(startingSequence="7", endingSequence="7").ending.sequence == 8
    assert options(startingOffsets='{"EV": 7}', endingOffsets='{"EV": 7}').starting.by_stream == {"EV": 7}


def test_what_a_streaming_query_does_with_a_stream_that_was_made_again_is_one_of_two() -> None:
    assert options(streaming=True, onStreamRecreated="startOver").start_over
    with pytest.raises(Misconfigured, match="fail, startOver"):
        options(streaming=True, onStreamRecreated="ignore")


def test_a_streaming_query_has_no_end() -> None:
    with pytest.raises(Misconfigured, match="endingSequence"):
        options(streaming=True, endingSequence="7")


def test_something_has_to_be_read() -> None:
    with pytest.raises(Misconfigured, match="say what to read"):
        read_options(SERVERS, {}, streaming=False)


def test_servers_come_from_the_option_or_the_environment() -> None:
    assert read_options({"stream": "EV"}, {"NATS_URL": "a:1"}, streaming=False).access.servers == "a:1"
    with pytest.raises(Misconfigured, match="NATS_URL is not set"):
        read_options({"stream": "EV"}, {}, streaming=False)


@pytest.mark.parametrize(
    ("given", "hidden"),
    [
        ({"servers": "nats://joe:s3cret@nats.example"}, "s3cret"),
        ({"password": "s3cret"}, "s3cret"),
        ({"token": "s3cret"}, "s3cret"),
    ],
)
def test_a_secret_in_an_option_is_refused_and_not_repeated(given: dict[str, str], hidden: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        options(**given)
    assert hidden not in str(refused.value)


def test_no_secret_is_shown_or_shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATS_URL", "nats://joe:s3cret@nats.example")
    monkeypatch.setenv("NATS_PASSWORD", "s3cret")
    monkeypatch.setenv("NATS_USER", "joe")
    file = tmp_path / "token"
    file.write_text("s3cret\n")
    for given in ({}, {"tokenFile": str(file)}, {"user": "joe", "passwordEnv": "NATS_PASSWORD"}):
        found = read_options({"stream": "EV", **given}, os.environ, streaming=False)
        assert "s3cret" not in repr(found)
        assert b"s3cret" not in pickle.dumps(found)
        [server] = found.access.addresses()
        assert server.password == "s3cret"
    assert Secret("tokenFile", file=str(file)).load() == "s3cret"


def test_an_identity_in_the_options_is_whole() -> None:
    environment = {"NATS_CREDS_FILE": "/etc/nats/creds"}
    assert options(environment).access.creds_file == "/etc/nats/creds"
    found = options(environment, user="joe", passwordEnv="PW").access
    assert (found.creds_file, found.user, found.password) == ("", "joe", Secret("passwordEnv", variable="PW"))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"credsFile": "a", "tokenFile": "b"}, r"credsFile \(a\) and tokenFile are given"),
        ({"user": "joe"}, "option user is 'joe': it goes together with passwordFile or passwordEnv"),
        ({"passwordEnv": "PW"}, "option passwordEnv is 'PW': it goes together with user"),
        ({"tokenFile": "a", "tokenEnv": "B"}, "tokenEnv is given, too"),
        ({"tlsCertFile": "a"}, "option tlsCertFile is 'a': it goes together with tlsKeyFile"),
        ({"tlsKeyFile": "a"}, "option tlsKeyFile is 'a': it goes together with tlsCertFile"),
    ],
)
def test_one_way_to_authenticate(given: dict[str, str], words: str) -> None:
    with pytest.raises(Misconfigured, match=words):
        options(**given)


def test_a_secret_that_is_not_on_this_machine_is_told_by_its_option() -> None:
    with pytest.raises(Misconfigured, match="executorEnv"):
        Secret("passwordEnv", variable="NOT_SET_ANYWHERE").load()
    with pytest.raises(Misconfigured, match="tokenFile is '/not/there'"):
        Secret("tokenFile", file="/not/there").load()

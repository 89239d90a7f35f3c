"""Options of Spark's source with values of the wrong kind: an error names it, quotes the value, says what is right."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.core.errors import Misconfigured
from pyspark_jetstream.options import READ_OPTIONS, read_options
from pyspark_jetstream.writing.options import WRITE_OPTIONS, write_options

Ask = Callable[[dict[str, str]], object]


def batch(given: dict[str, str]) -> object:
    return read_options(_named(given, stream="EV"), {}, streaming=False)


def stream(given: dict[str, str]) -> object:
    return read_options(_named(given, stream="EV"), {}, streaming=True)


def write(given: dict[str, str]) -> object:
    return write_options(_named(given, subject="a.b"), {}, streaming=False)


def _named(given: dict[str, str], **more: str) -> dict[str, str]:
    return {**more, "servers": "nats://nats.example", **{name.lower(): value for name, value in given.items()}}


FLAGS = ["includeHeaders", "includeReplays", "failOnDataLoss", "cloudevents", "tlsFirst"]
LIMITS = ["maxMessagesPerTrigger", "maxBytesPerTrigger"]
TIMES = ["startingTimestamp", "endingTimestamp"]
OFFSETS = ["startingOffsets", "endingOffsets"]
NAMES = ["stream", "streams", "channel", "channels", "subject"]
NO_COUNT = ["-1", "0", "1.5", "many", "1e3", "nan", "null", "٣", "9" * 24]
NO_FLAG = ["yes", "1", "t", "[]", "None"]
NO_WORD = ["push", "pulls", "1", "true"]
NO_TIME = ["yesterday", "-1", "1795874400", "2026-01-31", "2026-01-31T09:30:00", "1795874400000000000", "null"]
NO_OFFSETS = ["7", "first", "[1]", '{"EV"}', '{"EV": 0}', '{"EV": 1.5}', '{"EV": "newest"}', '{"EV": null}']
NO_NAMES = ["[]", ",", " , ", "[1]", '["EV", 7]', '["EV"']
NO_SECONDS = ["0", "-1", "soon", "1m", "1e3", "nan", "٣", "999999"]

CASES: list[tuple[Ask, list[str], list[str]]] = [
    *((ask, FLAGS, NO_FLAG) for ask in (batch, stream)),
    (batch, ["mode"], NO_WORD),
    (stream, ["mode", "onStreamRecreated"], NO_WORD),
    *((ask, ["minPartitions", "maxMessagesPerPartition", "startingSequence"], NO_COUNT) for ask in (batch, stream)),
    (batch, ["endingSequence"], NO_COUNT),
    (stream, LIMITS, NO_COUNT),
    (batch, TIMES, NO_TIME),
    (stream, ["startingTimestamp"], NO_TIME),
    (batch, OFFSETS, NO_OFFSETS),
    (stream, ["startingOffsets"], NO_OFFSETS),
    *((ask, NAMES, NO_NAMES) for ask in (batch, stream)),
    *((ask, ["timeout"], NO_SECONDS) for ask in (batch, stream, write)),
    (batch, ["stream", "streams"], ["a b", "a.b", "EV,>", "a/b", "*"]),
    (batch, ["channel", "channels"], ["orders", "/orders", "shop/", "shop/Or ders", "SHOP/orders"]),
    (batch, ["subject"], ["a..b", "a b", ".a", "a.>.b"]),
    (batch, ["domain"], ["a.b", "*", ">", "a b"]),
    (batch, ["apiPrefix"], ["JS.*.API", "JS.>", "a b", "a..b"]),
    (batch, ["servers"], ["http://a", "nats://a:port", "nats://:4222", ","]),
    (write, ["cloudevents", "commitMarker"], NO_FLAG),
    (write, ["ackWindow", "maxRowsPerSecond"], NO_COUNT),
    (write, ["msgIds", "onFaultyRow", "fastIngest"], NO_WORD),
    (write, ["subject"], ["a.*", "a.>", "a b", "a..b", ".a"]),
]


@pytest.mark.parametrize(
    ("ask", "option", "value"),
    [
        pytest.param(ask, option, value, id=f"{ask.__name__} {option} {value}")
        for ask, options, values in CASES
        for option in options
        for value in values
    ],
)
def test_the_option_is_named_the_value_is_quoted_and_what_is_right_is_said(ask: Ask, option: str, value: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        ask({option: value})
    said = str(refused.value)
    assert refused.value.field == option
    assert option in said
    # Of a list the name that is wrong; at the end of what it shows of a long one are dots.
    shown = [part.strip() for part in (value, *value.split(","))]
    assert any(f"{part!r}" in said for part in shown) or option == "servers"
    assert any(
        words in said.lower()
        for words in ("write ", "one word", "has no blanks", "is it a finer unit", "names no", "add 000")
    )


@pytest.mark.parametrize("option", READ_OPTIONS)
def test_an_empty_value_is_no_value_of_a_reader(option: str) -> None:
    with pytest.raises(Misconfigured, match=f"option {option} is '': write a value, or leave it out"):
        batch({option: " "})


@pytest.mark.parametrize("option", WRITE_OPTIONS)
def test_an_empty_value_is_no_value_of_a_writer(option: str) -> None:
    with pytest.raises(Misconfigured, match=f"option {option} is '': write a value, or leave it out"):
        write({option: ""})


@pytest.mark.parametrize(
    ("ask", "given", "words"),
    [
        (batch, {"Streem": "EV"}, "no option 'streem': did you mean stream"),
        (batch, {"starting_offsets": "earliest"}, "did you mean startingOffsets"),
        (write, {"commitmaker": "true"}, "did you mean commitMarker"),
        (batch, {"startingSequence": "7", "startingOffsets": "earliest"}, "startingOffsets is given, too"),
        (batch, {"endingTimestamp": "2026-01-31T09:30:00Z", "endingSequence": "7"}, "endingSequence is given, too"),
        (stream, {"endingOffsets": "latest"}, "option endingOffsets is 'latest': a streaming query has no end"),
        (batch, {"maxBytesPerTrigger": "7"}, "option maxBytesPerTrigger is '7': a batch has no trigger"),
        (write, {"commitMarker": "true"}, "option commitMarker is 'true': a batch needs a runId, too"),
        (write, {"commitMarkerStream": "M"}, "option commitMarkerStream is 'M': set commitMarker to true, too"),
        (write, {"runSelection": "all"}, "option runSelection is 'all': .*set commitMarker and runId"),
        (
            write,
            {"commitMarker": "true", "runId": "r", "commitMarkerStream": "a b"},
            "option commitMarkerStream is 'a b': a stream's name has no blanks",
        ),
        (write, {"channel": "shop/orders"}, "option subject is 'a.b': channel is given, too"),
    ],
)
def test_what_excludes_something_is_named_with_it(ask: Ask, given: dict[str, str], words: str) -> None:
    with pytest.raises(Misconfigured, match=words):
        ask(given)

"""Events as JSON: the data to the byte, every fault, and never another exception."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import InvalidEvent
from headrace.core.event.event import Event, make_event
from headrace.core.event.json_format import parse, write

ORDER = {"specversion": "1.0", "id": "1", "source": "/orders", "type": "order.created"}
JSON_BODY = b'{"specversion":"1.0","id":"1","source":"/orders","type":"order.created"%s}'
JSON_TYPE, TEXT_TYPE = {"datacontenttype": "application/json"}, {"datacontenttype": "text/plain"}
EXACT = b'{ "b" : 1.0,\n "a":1e2, "a":"\\u00e9" }'
WHOLE = (JSON_BODY % b',"data": {"a": [1, "b"]}, "note": "x"').decode()

json_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


def event_in(body):
    try:
        return parse(body)
    except InvalidEvent:
        return None


def faults_in(body):
    with pytest.raises(InvalidEvent) as refusal:
        parse(body)
    return [fault.attribute for fault in refusal.value.faults]


@pytest.mark.parametrize(
    ("members", "attributes", "data"),
    [
        pytest.param(
            b',"data": %s ' % EXACT,
            JSON_TYPE,
            EXACT,
            id="JSON data is kept to the byte, its type made explicit",
        ),
        pytest.param(b',"data":"hi"', JSON_TYPE, b'"hi"', id="without a content type a string is JSON"),
        pytest.param(b',"data":false', JSON_TYPE, b"false", id="false is data"),
        pytest.param(b',"data":%s' % (b"9" * 5000), JSON_TYPE, b"9" * 5000, id="no number is too large for data"),
        pytest.param(
            b',"datacontenttype":"a/b+JSON","data":[]',
            {"datacontenttype": "a/b+JSON"},
            b"[]",
            id="+json is JSON",
        ),
        pytest.param(
            b',"datacontenttype":"text/plain","data":"h\\u00e9\\n"',
            TEXT_TYPE,
            "hé\n".encode(),
            id="a string is text",
        ),
        pytest.param(
            b',"datacontenttype":"text/plain","data":{"a": 1}',
            TEXT_TYPE,
            b'{"a": 1}',
            id="an object is JSON text",
        ),
        pytest.param(b',"data_base64":"/wA="', {}, b"\xff\x00", id="base64 is bytes of no known type"),
        pytest.param(b',"data":null', {}, b"", id="null is no data"),
        pytest.param(b',"data":null,"data_base64":"aGk="', {}, b"hi", id="null beside base64 is no data"),
        pytest.param(
            b',"n":-7,"zero":-0,"yes":true,"gone":null,"empty":""',
            {"n": "-7", "zero": "0", "yes": "true", "empty": ""},
            b"",
            id="extensions become canonical strings",
        ),
    ],
)
def test_a_structured_event_is_read(members, attributes, data):
    assert parse(JSON_BODY % members) == Event({**ORDER, **attributes}, data)


@pytest.mark.parametrize(
    ("members", "wrong"),
    [
        pytest.param(b',"data":1,"data_base64":"aGk="', ["data_base64"], id="data twice"),
        pytest.param(b',"data_base64":"aGk"', ["data_base64"], id="base64 without padding"),
        pytest.param(b',"data_base64":"aG k="', ["data_base64"], id="base64 with a blank"),
        pytest.param(b',"data_base64":"\xc3\xa9"', ["data_base64"], id="base64 that is not ASCII"),
        pytest.param(b',"data_base64":1', ["data_base64"], id="base64 that is no string"),
        pytest.param(b',"datacontenttype":"text/plain","data":"\\ud800"', ["data"], id="half a surrogate pair in text"),
        pytest.param(b',"id":"2"', ["id"], id="an attribute twice"),
        pytest.param(b',"n":1.0', ["n"], id="a fraction"),
        pytest.param(b',"n":2147483648', ["n"], id="an integer of more than 32 bits"),
        pytest.param(b',"n":%s' % (b"9" * 5000), ["n"], id="an enormous integer"),
        pytest.param(b',"n":{}', ["n"], id="an object"),
        pytest.param(b',"n":[]', ["n"], id="an array"),
        pytest.param(b',"subject":1', ["subject"], id="a core attribute that is no string"),
        pytest.param(b',"note":"\\u0000"', ["note"], id="a control character"),
        pytest.param(b',"\\ud800":"x"', [r"'\ud800'"], id="half a surrogate pair in a name"),
        pytest.param(b',"My":1.5,"time":"now"', ["My", "time"], id="several things at once"),
        pytest.param(b',"data":NaN', ["body"], id="NaN"),
        pytest.param(b',"data":' + b"[" * 100_000, ["body"], id="bottomless nesting"),
        pytest.param(b',"data":"\n"', ["body"], id="a raw line feed in a string"),
        pytest.param(b',"data":"\xff"', ["body"], id="bytes that are not UTF-8"),
        pytest.param(b",", ["body"], id="a comma too many"),
        pytest.param(b',"n"', ["body"], id="a member without value"),
        pytest.param(b"}x{", ["body"], id="something behind the object"),
    ],
)
def test_a_faulty_structured_event_is_refused(members, wrong):
    assert faults_in(JSON_BODY % members) == wrong


@pytest.mark.parametrize(
    "body",
    [b"", b" ", b"[]", b"null", b"{", b'{"a"', b'{"a":', b'{"a":1', b"{1:2}", b"\xef\xbb\xbf", b"{}\xef\xbb\xbf"],
)
def test_a_body_that_is_no_json_object_is_refused(body):
    assert faults_in(body) == ["body"]


def test_a_missing_attribute_is_told_together_with_the_faulty_ones():
    assert faults_in(b'{"specversion":1.0,"id":1}') == [
        "specversion",
        "id",
        "source",
        "type",
    ]


@pytest.mark.parametrize(
    ("members", "attributes", "data"),
    [
        pytest.param(b',"datacontentencoding":"base64","data":"/wA="', {}, b"\xff\x00", id="base64"),
        pytest.param(
            b',"datacontentencoding":"Base64","datacontenttype":"text/plain","data":"aGk="',
            TEXT_TYPE,
            b"hi",
            id="with a type",
        ),
        pytest.param(
            b',"datacontentencoding":"base64","data":{}',
            JSON_TYPE,
            b"{}",
            id="an encoding of what is no string is ignored",
        ),
        pytest.param(b',"datacontentencoding":"base64"', {}, b"", id="an encoding of nothing is ignored"),
    ],
)
def test_version_0_3_says_beside_the_data_how_it_is_encoded(members, attributes, data):
    body = (JSON_BODY % members).replace(b"1.0", b"0.3", 1)
    assert parse(body) == Event({**ORDER, "specversion": "0.3", **attributes}, data)


@pytest.mark.parametrize(
    ("members", "wrong"),
    [
        pytest.param(b',"data_base64":"aGk="', ["data_base64"], id="the way of 1.0"),
        pytest.param(b',"datacontentencoding":"gzip","data":"x"', ["datacontentencoding"], id="another encoding"),
        pytest.param(b',"datacontentencoding":"base64","data":"x"', ["data"], id="not really base64"),
    ],
)
def test_version_0_3_knows_no_other_encoding(members, wrong):
    assert faults_in((JSON_BODY % members).replace(b"1.0", b"0.3", 1)) == wrong


@pytest.mark.parametrize(
    ("attributes", "data", "members"),
    [
        pytest.param(
            JSON_TYPE,
            EXACT,
            b',"datacontenttype":"application/json","data":' + EXACT,
            id="JSON is embedded as it is",
        ),
        pytest.param(
            JSON_TYPE,
            b"null",
            b',"datacontenttype":"application/json","data_base64":"bnVsbA=="',
            id="null would read as no data",
        ),
        pytest.param(
            JSON_TYPE,
            b" 1",
            b',"datacontenttype":"application/json","data_base64":"IDE="',
            id="outer blanks would be lost",
        ),
        pytest.param(
            JSON_TYPE,
            b"NaN",
            b',"datacontenttype":"application/json","data_base64":"TmFO"',
            id="what is not JSON is not embedded",
        ),
        pytest.param(
            TEXT_TYPE,
            "é\n".encode(),
            b',"datacontenttype":"text/plain","data":"\xc3\xa9\\n"',
            id="text is a string",
        ),
        pytest.param(
            TEXT_TYPE,
            b"\xff",
            b',"datacontenttype":"text/plain","data_base64":"/w=="',
            id="what is not UTF-8 is no string",
        ),
        pytest.param({}, b"1", b',"data_base64":"MQ=="', id="data without a type must not become JSON"),
        pytest.param(JSON_TYPE, b"", b',"datacontenttype":"application/json"', id="no data"),
    ],
)
def test_a_structured_event_is_written(attributes, data, members):
    assert write(make_event({**ORDER, **attributes}, data)) == JSON_BODY % members


@given(json_values, st.sampled_from([None, 2]))
def test_whatever_json_the_data_is_it_is_kept_to_the_byte(value, indent):
    text = json.dumps(value, indent=indent, ensure_ascii=indent is None).encode()
    assert parse(JSON_BODY % (b',"data":' + text)).data == (b"" if value is None else text)


@given(st.integers(min_value=0, max_value=len(WHOLE)), st.text(max_size=2), st.integers(min_value=0, max_value=3))
def test_what_the_standard_parser_refuses_is_refused(at, inserted, cut):
    body = WHOLE[:at].encode() + inserted.encode() + WHOLE[at + cut :].encode()
    event = event_in(body)
    assert event is None or json.loads(body)["id"] == event.id

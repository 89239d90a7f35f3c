"""What is an event, and what a sender is told about one that is none."""

from __future__ import annotations

import pytest
from cloudevents.core.exceptions import CloudEventValidationError
from cloudevents.core.v1.event import CloudEvent
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import Fault, InvalidEvent
from headrace.core.event.event import Event, faults_of, make_event

ORDER = {"specversion": "1.0", "id": "1", "source": "/orders", "type": "order.created"}


def faulty(**attributes: str) -> list[str]:
    """The attributes that are found faulty in an order with these attributes added."""
    return [fault.attribute for fault in faults_of({**ORDER, **attributes})]


@pytest.mark.parametrize(
    "attributes",
    [
        pytest.param({}, id="the four required ones are enough"),
        pytest.param({"specversion": "0.3"}, id="specversion 0.3 is still accepted"),
        pytest.param({"source": "not really a URI"}, id="a source is not parsed"),
        pytest.param({"id": "Größe 1 🙂"}, id="values are Unicode"),
        pytest.param({"traceparent": ""}, id="an extension may be empty"),
        pytest.param({"schemaurl": ""}, id="1.0 knows no schemaurl, it is an extension"),
        pytest.param({"specversion": "0.3", "dataschema": ""}, id="0.3 knows no dataschema, it is an extension"),
        pytest.param({"datacontentencoding": "base64"}, id="1.0 knows no datacontentencoding, it is an extension"),
        pytest.param({"42": "x"}, id="a name may be digits"),
        pytest.param({"averyveryverylongextensionname": "x"}, id="a name may be long"),
        pytest.param({"note": "\u200b"}, id="a zero width space is no control character"),
    ],
)
def test_valid_attributes_have_no_faults(attributes):
    assert faults_of({**ORDER, **attributes}) == ()


@pytest.mark.parametrize(
    ("attributes", "wrong"),
    [
        pytest.param({"id": ""}, ["id"], id="an empty id"),
        pytest.param({"source": ""}, ["source"], id="an empty source"),
        pytest.param({"type": ""}, ["type"], id="an empty type"),
        pytest.param({"specversion": ""}, ["specversion"], id="an empty specversion"),
        pytest.param({"specversion": "1.1"}, ["specversion"], id="an unknown specversion"),
        pytest.param({"subject": ""}, ["subject"], id="an empty subject"),
        pytest.param({"time": ""}, ["time"], id="an empty time"),
        pytest.param({"datacontenttype": ""}, ["datacontenttype"], id="an empty content type"),
        pytest.param({"dataschema": ""}, ["dataschema"], id="an empty dataschema"),
        pytest.param({"specversion": "0.3", "schemaurl": ""}, ["schemaurl"], id="an empty schemaurl in 0.3"),
        pytest.param(
            {"specversion": "0.3", "datacontentencoding": "base64"},
            ["datacontentencoding"],
            id="0.3's JSON encoding, which is no property of the event",
        ),
        pytest.param({"data": "x"}, ["data"], id="an attribute called data"),
        pytest.param({"data_base64": "x"}, ["data_base64"], id="an attribute called data_base64"),
        pytest.param({"Tenant": "x"}, ["Tenant"], id="a name in upper case"),
        pytest.param({"my-tenant": "x"}, ["my-tenant"], id="a name with a dash"),
        pytest.param({"größe": "x"}, ["größe"], id="a name that is not ASCII"),
        pytest.param({"²": "x"}, ["²"], id="a digit that is not ASCII"),
        pytest.param({"": "x"}, [""], id="no name at all"),
        pytest.param({"a\nb": "x"}, [r"'a\nb'"], id="a name with a line feed is shown escaped"),
        pytest.param({"id": "a\r\nce-x: 1"}, ["id"], id="a line break in a value"),
        pytest.param({"note": "\x85"}, ["note"], id="a C1 control character"),
        pytest.param({"note": "\ud83d"}, ["note"], id="half a surrogate pair"),
        pytest.param({"note": "\ufdd0"}, ["note"], id="a noncharacter"),
        pytest.param({"note": "\U0010ffff"}, ["note"], id="the last noncharacter"),
    ],
)
def test_an_attribute_that_breaks_the_rules_is_named(attributes, wrong):
    assert faulty(**attributes) == wrong


@pytest.mark.parametrize(
    "time",
    [
        "2026-01-31T09:30:00Z",
        "2026-01-31t09:30:00z",
        "2026-01-31T09:30:00.123456789+05:30",
        "2024-02-29T23:59:60Z",
        "0000-02-29T00:00:00-00:00",
    ],
)
def test_a_time_as_rfc_3339_has_it_is_accepted(time):
    assert faulty(time=time) == []


@pytest.mark.parametrize(
    "time",
    [
        "2026-01-31",
        "2026-01-31T09:30:00",
        "2026-01-31 09:30:00Z",
        "2026-1-31T09:30:00Z",
        "2026-02-29T09:30:00Z",
        "2026-04-31T09:30:00Z",
        "2026-13-01T09:30:00Z",
        "2026-01-31T24:00:00Z",
        "2026-01-31T09:30:00.Z",
        "2026-01-31T09:30:00+24:00",
        "٢٠٢٦-01-31T09:30:00Z",
        "20260131T093000Z",
    ],
)
def test_any_other_time_is_not(time):
    assert faulty(time=time) == ["time"]


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "Application/Vnd.Orders+JSON; version=2",
        'text/plain;charset="utf-8"',
        "x/y ; a=b",
    ],
)
def test_a_content_type_is_a_type_and_a_subtype(content_type):
    assert faulty(datacontenttype=content_type) == []


@pytest.mark.parametrize(
    "content_type",
    [
        "json",
        "/json",
        "text/",
        "text /plain",
        "a/b/c",
        " text/plain",
        "text/plain ",
        "text/plain; ",
        "text/plain; name=é",
        "té/x",
    ],
)
def test_any_other_content_type_is_refused(content_type):
    assert faulty(datacontenttype=content_type) == ["datacontenttype"]


def test_every_fault_is_told_at_once_with_the_value_and_the_cure():
    assert faults_of({"specversion": "9", "id": "", "Tenant": "acme", "time": "now"}) == (
        Fault("Tenant", "'Tenant' is no attribute name: use the letters a-z and digits only"),
        Fault("specversion", "is '9', known are 1.0 and 0.3: send one of these"),
        Fault("id", "is '': every event needs a non-empty id"),
        Fault("source", "is missing: every event needs a non-empty source"),
        Fault("type", "is missing: every event needs a non-empty type"),
        Fault("time", "is 'now': write it as RFC 3339 says, like 2026-01-31T09:30:00Z"),
    )


def test_a_long_value_is_cut_in_the_message():
    (fault,) = faults_of({**ORDER, "time": "x" * 1000})
    assert len(str(fault)) < 150


def test_an_invalid_event_cannot_be_made():
    with pytest.raises(InvalidEvent) as refusal:
        make_event({**ORDER, "id": "", "type": ""}, b"{}")
    assert [fault.attribute for fault in refusal.value.faults] == ["id", "type"]


def test_an_event_keeps_its_attributes_whatever_becomes_of_the_dictionary():
    attributes = dict(ORDER)
    event = make_event(attributes, b"{}")
    attributes["id"] = "2"
    assert event == Event(ORDER, b"{}")
    assert (event.id, event.source, event.type, event.specversion) == ("1", "/orders", "order.created", "1.0")
    assert event.datacontenttype is None


def test_a_dead_letter_is_the_same_event_with_further_attributes():
    event = make_event(ORDER, b"{}")
    assert event.with_attributes({"knativeerrorcode": "503"}) == Event({**ORDER, "knativeerrorcode": "503"}, b"{}")


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=4))
def test_faults_are_found_in_anything_and_can_be_written_in_an_answer(attributes):
    for fault in faults_of(attributes):
        assert str(fault).isprintable()


@given(
    st.dictionaries(
        st.sampled_from(["id", "source", "type", "subject", "dataschema", "ext", "Ext", "e_x", "data"]),
        st.sampled_from(["", "a", "é"]),
    )
)
def test_we_and_the_official_sdk_agree_on_what_is_an_event(attributes):
    attributes = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"} | attributes
    try:
        CloudEvent(dict(attributes))
        valid = True
    except CloudEventValidationError:
        valid = False
    assert (faults_of(attributes) == ()) is valid

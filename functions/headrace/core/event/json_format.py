"""The JSON event format: one event as one JSON object, with the data bytes exact.

Knows JSON and the format's rules for `data` and `data_base64`. Does not know what carries the object.
Called by both codecs for structured mode.

Source: CloudEvents JSON Event Format 1.0.2, and 0.3 for its `datacontentencoding`.
"""

from __future__ import annotations

import binascii
import json
import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_BE
from collections.abc import Callable
from itertools import islice

from headrace.core.errors import Fault, InvalidEvent
from headrace.core.event.event import (
    MOST_ATTRIBUTES,
    Event,
    drop_empty,
    essence,
    fault_in,
    faults_of,
    make_event,
    too_many,
)
from headrace.core.json_text import DECODER, Member, members
from headrace.core.quoting import quoted

_INTEGER = re.compile(r"-?[0-9]+")
# CloudEvents' Integer has 32 bits: at most ten digits and a sign.
_INTEGERS = range(-(2**31), 2**31)
_INTEGER_LENGTH = 11
# Beside attributes there is one of `data` and `data_base64`, the former perhaps with `datacontentencoding`.
_MOST_MEMBERS = MOST_ATTRIBUTES + 2
# UTF-32's marks begin with one of UTF-16's, or with zeros.
_UTF_16 = (BOM_UTF16_LE, BOM_UTF16_BE, BOM_UTF32_BE)
_MUST_BE_STRINGS = frozenset(
    ("specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema", "schemaurl")
)


# From the place where a value begins to the value and its end; StopIteration where none begins.
_SCAN: Callable[[str, int], tuple[object, int]] = DECODER.scan_once  # type: ignore[attr-defined]  # not in typeshed
# For `plain_members`: a name, not so long that remembering it would cost much, and a string without escapes up to the
# mark behind it; the string may be missing.
_OPENING = re.compile(r"[ \t\n\r]*\{")
_PLAIN_MEMBER = re.compile(r'[ \t\n\r]*"([a-z0-9]{1,100})"[ \t\n\r]*:[ \t\n\r]*(?:"([ !#-\[\]-~]*)"[ \t\n\r]*([,}]))?')
_CLOSING = re.compile(r"[ \t\n\r]*([,}])")


def parse(body: bytes) -> Event:
    """The event in a JSON object; InvalidEvent with every fault when there is none."""
    found, faults = _read_members(body)
    attributes: dict[str, str] = {}
    carried: dict[str, Member] = {}
    for member in found:
        if member.value is None:
            continue
        if member.name in ("data", "data_base64"):
            carried[member.name] = member
        elif (value := _canonical(member)) is not None:
            attributes[member.name] = value
        else:
            faults.append(_not_canonical(member))
    drop_empty(attributes)
    data = b""
    try:
        data = _read_data(attributes, carried)
    except InvalidEvent as invalid:
        faults.extend(invalid.faults)
    if faults:
        known = {fault.attribute for fault in faults}
        raise InvalidEvent(*faults, *(fault for fault in faults_of(attributes) if fault.attribute not in known))
    return make_event(attributes, data)


def plain_members(body: bytes) -> tuple[list[tuple[str, str]], bytes] | None:
    """Attributes and data of an event as most producers write it, in a fraction of the time: the attributes are strings
    of printable ASCII without escapes, and the data are a JSON value but no string. None: `read` it.

    Names are not judged, and may come twice.
    """
    try:
        return _plain_members(body.decode())
    except (ValueError, RecursionError, StopIteration):
        return None


def _plain_members(text: str) -> tuple[list[tuple[str, str]], bytes] | None:
    opening = _OPENING.match(text)
    at, mark = (opening.end(), ",") if opening else (0, "")
    attributes: list[tuple[str, str]] = []
    raw = ""
    while mark == ",":
        member = _PLAIN_MEMBER.match(text, at)
        if member is None:
            return None
        name, string, mark = member.groups()
        at = member.end()
        if name == "data":
            value, end = _SCAN(text, at)
            closing = _CLOSING.match(text, end)
            if raw or value is None or closing is None or text[at] == '"' or mark is not None:
                return None
            raw, mark, at = text[at:end], closing[1], closing.end()
        elif mark is not None:
            attributes.append((name, string))
    if mark != "}" or text[at:].strip(" \t\n\r"):
        return None
    if raw and all(name != "datacontenttype" for name, _ in attributes):
        attributes.append(("datacontenttype", "application/json"))
    return attributes, raw.encode()


def write(event: Event) -> bytes:
    """The event as a JSON object, from which `read` makes the same event again, data bytes included."""
    head = dict(event.attributes)
    raw = _embedded(event) if event.data else None
    if event.data and raw is None:
        raw = f'"{binascii.b2a_base64(event.data, newline=False).decode()}"'
        if event.specversion == "0.3":
            head["datacontentencoding"] = "base64"
        else:
            return _joined(head, "data_base64", raw)
    return _joined(head, "data", raw)


def _joined(head: dict[str, str], name: str, raw: str | None) -> bytes:
    text = json.dumps(head, ensure_ascii=False, separators=(",", ":"))
    return (text if raw is None else f'{text[:-1]},"{name}":{raw}}}').encode()


def _embedded(event: Event) -> str | None:
    """The data as a JSON value that reads back to the same bytes; None when it has to go as base64."""
    media_type = event.datacontenttype
    if media_type is None:
        return None
    try:
        text = event.data.decode()
        if _is_json(media_type):
            value, end = DECODER.raw_decode(text)
            return text if end == len(text) and value is not None else None
    except (ValueError, RecursionError):
        return None
    if essence(media_type).startswith("text/") and _is_utf8(media_type):
        return json.dumps(text, ensure_ascii=False)
    return None


def _is_json(media_type: str) -> bool:
    kind = essence(media_type)
    return kind.endswith(("/json", "+json"))


def _is_utf8(media_type: str) -> bool:
    parameters = media_type.partition(";")[2].lower()
    return "charset" not in parameters or "utf-8" in parameters


def _read_data(attributes: dict[str, str], carried: dict[str, Member]) -> bytes:
    """The data bytes; makes an implied content type explicit, takes 0.3's encoding out of the attributes."""
    encoding = attributes.pop("datacontentencoding", None) if attributes.get("specversion") == "0.3" else None
    data, base64 = carried.get("data"), carried.get("data_base64")
    if base64 is not None and data is not None:
        raise InvalidEvent(Fault("data_base64", "stands beside data: send only one of them"))
    if base64 is not None:
        if attributes.get("specversion") == "0.3":
            wanted = "send data with datacontentencoding base64"
            raise InvalidEvent(Fault("data_base64", f"is unknown to specversion 0.3: {wanted}"))
        return _from_base64(base64)
    if data is None:
        return b""
    # 0.3: datacontentencoding is ignored when the data is not a string.
    if encoding is not None and data.raw[0] == '"':
        if encoding.lower() != "base64":
            raise InvalidEvent(Fault("datacontentencoding", f"is {quoted(encoding)}: base64 is the only one"))
        return _from_base64(data)
    media_type = attributes.setdefault("datacontenttype", "application/json")
    if _is_json(media_type) or data.raw[0] != '"':
        return data.raw.encode()
    try:
        return str(data.value).encode()
    except UnicodeEncodeError as half:
        problem = f"holds half of a surrogate pair at character {half.start}: escape both halves"
        raise InvalidEvent(Fault("data", problem)) from half


def _from_base64(member: Member) -> bytes:
    if not isinstance(member.value, str) or member.raw[0] != '"':
        raise InvalidEvent(Fault(member.name, f"is {quoted(member.raw)}: send a JSON string of base64"))
    try:
        return binascii.a2b_base64(member.value, strict_mode=True)
    except ValueError as wrong:
        problem = f"is {quoted(member.value)}, not base64 ({wrong}): use RFC 4648 section 4, with padding"
        raise InvalidEvent(Fault(member.name, problem)) from wrong


def _canonical(member: Member) -> str | None:
    """The attribute value as CloudEvents' canonical string; None when it cannot be one."""
    if isinstance(member.value, str) and member.raw[0] == '"':
        return member.value
    if member.name in _MUST_BE_STRINGS:
        return None
    if isinstance(member.value, bool):
        return member.raw
    if len(member.raw) <= _INTEGER_LENGTH and _INTEGER.fullmatch(member.raw) and int(member.raw) in _INTEGERS:
        return str(int(member.raw))
    return None


def _not_canonical(member: Member) -> Fault:
    wanted = "a JSON string" if member.name in _MUST_BE_STRINGS else "a string, a boolean or an integer of 32 bits"
    return fault_in(member.name, f"is the JSON text {quoted(member.raw)}: send {wanted}")


def _read_members(body: bytes) -> tuple[list[Member], list[Fault]]:
    if body.startswith(_UTF_16):
        raise InvalidEvent(Fault("body", "begins with the byte order mark of UTF-16 or UTF-32: send UTF-8"))
    try:
        # RFC 8259, section 8.1: a reader may ignore the mark that some programs put before UTF-8.
        found = list(islice(members(body.removeprefix(BOM_UTF8).decode()), _MOST_MEMBERS + 1))
    except RecursionError as deep:
        raise InvalidEvent(Fault("body", "is nested too deeply: send such data as data_base64")) from deep
    except ValueError as wrong:
        raise InvalidEvent(Fault("body", f"is not a JSON object ({wrong}): send one event as JSON")) from wrong
    if len(found) > _MOST_MEMBERS:
        raise InvalidEvent(too_many())
    names: set[str] = set()
    faults: list[Fault] = []
    for name in (member.name for member in found):
        if name in names:
            faults.append(fault_in(name, "comes twice: send it once"))
        names.add(name)
    return found, faults

"""A CloudEvent as an immutable value, and the rules for its attributes.

Knows the attribute rules of CloudEvents 1.0 and 0.3. Does not know HTTP, NATS or JSON: those are the codecs'.
Built by the codecs, read by the stories.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from headrace.core.errors import Fault, InvalidEvent
from headrace.core.quoting import quoted

# Control characters, surrogates and noncharacters: spec.md of 1.0.2, section "Type System", String.
_FORBIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef"
    + "".join(f"{chr(plane << 16 | 0xFFFE)}{chr(plane << 16 | 0xFFFF)}" for plane in range(17))
    + "]"
)
_TIME = re.compile(
    r"([0-9]{4})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"[Tt](?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\.[0-9]+)?"
    r"(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
_MEDIA_TYPE = re.compile(r"{0}/{0}(?: *;[\x20-\x7e]*)?(?<! )".format(r"[\w!#$%&'*+.^`|~-]+"), re.ASCII)

_REQUIRED = {"specversion": None, "id": None, "source": None, "type": None}.keys()
_OPTIONAL = {
    "1.0": ("subject", "time", "datacontenttype", "dataschema"),
    "0.3": ("subject", "time", "datacontenttype", "schemaurl"),
}
_KNOWN = frozenset((*_REQUIRED, *_OPTIONAL["1.0"], *_OPTIONAL["0.3"]))
# CloudEvents sets no limit, but each attribute costs time in every hop, and no producer has nearly as many.
MOST_ATTRIBUTES = 256
# Long enough to recognise a value, short enough for a log line.
_LONGEST_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Event:
    """An event: its attributes in their canonical string form, and its data bytes, untouched.

    Attributes:
        attributes: all context attributes with their extensions, `specversion` and `datacontenttype`
            included, at most MOST_ATTRIBUTES; names in lower case, values as CloudEvents' canonical strings.
        data: the bytes of the data; empty when the event has none.
    """

    attributes: Mapping[str, str]
    data: bytes = b""

    @property
    def id(self) -> str:
        return self.attributes["id"]

    @property
    def source(self) -> str:
        return self.attributes["source"]

    @property
    def type(self) -> str:
        return self.attributes["type"]

    @property
    def specversion(self) -> str:
        return self.attributes["specversion"]

    @property
    def datacontenttype(self) -> str | None:
        return self.attributes.get("datacontenttype")

    def with_attributes(self, extra: Mapping[str, str]) -> Event:
        """The same event with further attributes, as a dead letter has."""
        return Event(MappingProxyType({**self.attributes, **extra}), self.data)


def make_event(attributes: Mapping[str, str], data: bytes = b"") -> Event:
    """The event of these attributes (copied); InvalidEvent with every fault when they break the rules."""
    if faults := faults_of(attributes):
        raise InvalidEvent(*faults)
    return Event(MappingProxyType(dict(attributes)), data)


def faults_of(attributes: Mapping[str, str]) -> tuple[Fault, ...]:
    """Everything that keeps these attributes from being a CloudEvent; empty for a valid one."""
    if len(attributes) > MOST_ATTRIBUTES:
        return (too_many(),)
    faults: list[Fault] = []
    for name, value in attributes.items():
        if name not in _KNOWN and not is_name(name):
            faults.append(_illegal_name(name))
        # Text that Python calls printable holds nothing forbidden; most values end here.
        if not value.isprintable() and (found := _FORBIDDEN.search(value)):
            faults.append(_illegal_character(name, value, found.group()))
    version = attributes.get("specversion", "1.0")
    if version not in _OPTIONAL:
        faults.append(fault_in("specversion", f"is {quoted(version)}, known are 1.0 and 0.3: send one of these"))
    elif version == "0.3" and "datacontentencoding" in attributes:
        faults.append(fault_in("datacontentencoding", "describes JSON only, not an event: leave it to the JSON format"))
    if "" in attributes.values() or not attributes.keys() >= _REQUIRED:
        faults.extend(_missing_or_empty(attributes, _OPTIONAL.get(version, ())))
    if (time := attributes.get("time")) and not is_time(time):
        faults.append(fault_in("time", f"is {quoted(time)}: write it as RFC 3339 says, like 2026-01-31T09:30:00Z"))
    if (media_type := attributes.get("datacontenttype")) and not is_media_type(media_type):
        wanted = "write a media type in ASCII without blanks around it, like application/json"
        faults.append(fault_in("datacontenttype", f"is {quoted(media_type)}: {wanted}"))
    return tuple(faults)


def drop_empty(attributes: dict[str, str]) -> None:
    """Take out optional attributes that are empty: a producer that sends `ce-subject:` means that there is no subject.

    An extension may be empty, and a required attribute must not be: both stay.
    """
    for name in _OPTIONAL.get(attributes.get("specversion", "1.0"), ()):
        if attributes.get(name) == "":
            del attributes[name]


def is_media_type(text: str) -> bool:
    """Whether a content type is plausible: type/subtype, perhaps parameters, in ASCII, no outer blanks."""
    return _MEDIA_TYPE.fullmatch(text) is not None


def essence(media_type: str) -> str:
    """The `type/subtype` of a content type in lower case, without its parameters."""
    return media_type.partition(";")[0].strip().lower()


def fault_in(name: str, problem: str) -> Fault:
    """The fault in an attribute whose name may be a stranger's; the name is shown escaped and cut."""
    return Fault(name if name.isprintable() and len(name) <= _LONGEST_SHOWN else quoted(name), problem)


def too_many() -> Fault:
    """The fault of an event with more attributes than we read."""
    return Fault("event", f"has more than {MOST_ATTRIBUTES} attributes: move them into the data")


def is_name(name: str) -> bool:
    return name.isalnum() and name.isascii() and name == name.lower() and name != "data"


def _illegal_name(name: str) -> Fault:
    if name in ("data", "data_base64"):
        return fault_in(name, "is reserved for the event's data: give the attribute another name")
    return fault_in(name, f"{quoted(name)} is no attribute name: use the letters a-z and digits only")


def _illegal_character(name: str, value: str, character: str) -> Fault:
    return fault_in(name, f"is {quoted(value)} with the forbidden character U+{ord(character):04X}: remove it")


def _missing_or_empty(attributes: Mapping[str, str], optional: tuple[str, ...]) -> Iterator[Fault]:
    for name in _REQUIRED:
        if name not in attributes:
            yield fault_in(name, f"is missing: every event needs a non-empty {name}")
        elif not attributes[name] and name != "specversion":
            yield fault_in(name, f"is '': every event needs a non-empty {name}")
    for name in optional:
        if attributes.get(name) == "":
            yield fault_in(name, "is '': give it a value or leave it out")


def is_value(text: str) -> bool:
    """Whether a text may be the value of an attribute: no control characters, surrogates or noncharacters."""
    return text.isprintable() or _FORBIDDEN.search(text) is None


def is_time(text: str) -> bool:
    """Whether a text is a time as RFC 3339 writes it."""
    match = _TIME.fullmatch(text)
    if match is None:
        return False
    year, month, day = match.groups()
    return day <= "28" or int(day) <= monthrange(int(year), int(month))[1]

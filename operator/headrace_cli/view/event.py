"""One stored event for people and for scripts. Pure, but for what a terminal shows of colours."""

from __future__ import annotations

import codecs
import json
from collections.abc import Mapping

from headrace.core.event import json_format
from headrace.core.event.event import Event, essence
from headrace.core.plural import counted
from headrace.core.quoting import plain
from headrace_cli.view.output import fields, harmless

# So many bytes are shown to a person; `-o json` has all.
SHOWN_BYTES = 4096
_BLANKS = str.maketrans("\r\n\t", "   ")
_FIRST = ("specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema")


def line(event: Event, **about: object) -> str:
    """One line of JSON: the members of `about`, and under `event` the event in CloudEvents' JSON format.

    `send` takes such lines again.
    """
    whole = {**about, "event": None}
    return harmless(json.dumps(whole, ensure_ascii=False).removesuffix("null}")) + f"{write_json(event)}}}"


def write_json(event: Event) -> str:
    """The event in CloudEvents' JSON format on one line, with its data in their original text, also large numbers."""
    # No string in JSON holds a line end or a tab: they stand between values, where a blank says the same.
    return harmless(json_format.write(event).decode().translate(_BLANKS))


def pretty(event: Event, headline: str, *, about: Mapping[str, object] | None = None, data: bool = True) -> str:
    """Several lines: a headline, the members of `about`, the attributes of the event, its data."""
    known = [(name, event.attributes[name]) for name in _FIRST if name in event.attributes and name != "specversion"]
    others = sorted((name, value) for name, value in event.attributes.items() if name not in _FIRST)
    before = [(name, str(value)) for name, value in (about or {}).items()]
    text = f"{headline}\n{fields([*before, *known, *others], indent='  ')}"
    if data and event.data:
        text += f"{indented(data_text(event))}\n"
    return text


def data_text(event: Event) -> str:
    """The data as text, JSON laid out; for data that are no text only the size."""
    kind = essence(event.datacontenttype or "")
    cut = event.data[:SHOWN_BYTES]
    more = f"\n… {counted(len(event.data) - SHOWN_BYTES, 'byte')} more" if len(event.data) > SHOWN_BYTES else ""
    if kind.endswith(("/json", "+json")) and not more:
        try:
            return json.dumps(json.loads(event.data), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):
            pass
    text = beginning(cut, cut=bool(more))
    return f"{counted(len(event.data), 'byte')} that are no text" if text is None else text + more


def beginning(data: bytes, *, cut: bool) -> str | None:
    """Data as text, None if they are none; `cut`: they may end in the middle of a character."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(data, final=not cut)
    except UnicodeDecodeError:
        return None


def indented(text: str, by: str = "  ") -> str:
    """A stranger's text of several lines, without any sequence that a terminal would obey."""
    return "\n".join(f"{by}{plain(each)}" for each in text.expandtabs().splitlines())

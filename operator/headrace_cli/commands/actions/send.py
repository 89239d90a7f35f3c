"""What `send` does: it composes events from the options or reads them from a file, and says what became of each."""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headrace.core.errors import InvalidEvent, Misconfigured
from headrace.core.event.event import Event
from headrace.core.plural import counted
from headrace_cli.access.session import Session
from headrace_cli.catalog.names import NamespacedName
from headrace_cli.commands.console import say, show, tell
from headrace_cli.commands.rules import Given
from headrace_cli.events import send
from headrace_cli.events.compose import Form, from_form, from_lines
from headrace_cli.events.send import Mode, Send
from headrace_cli.view.output import harmless
from headrace_cli.view.progress import Progress
from headrace_cli.view.units import stamp

# A person who sends parked events again within the window must not take this for a delivery.
STORED_BEFORE = "stored before and not delivered again: source and id are in the stream's duplicate window"


def events_of(given: Given) -> Iterator[Event]:
    """The events that the options describe, one after the other as they are sent.

    Raises:
        Misconfigured: an option, the data or a line of the file is wrong; a line only when its turn has come.
    """
    if given["file"]:
        return _from_file(given["file"], new_ids=given["new_ids"])
    named = {name: given[name] for name in ("subject", "dataschema") if given[name] is not None}
    if given["id"] is not None and given["count"] > 1:
        raise Misconfigured("--id makes all events the same, which are stored once: leave it out", field="--id")
    form = Form(
        type=given["type"],
        source=given["source"],
        id=given["id"],
        attributes={**given["named"], **named},
        data=_data(given["data"]),
        content_type=given["content_type"],
        fields=given["fields"],
    )
    return _from_form(form, given["count"])


def to_url(given: Given, channel: NamespacedName, events: Iterator[Event]) -> int:
    return asyncio.run(_send_all(send.over_http(given["url"], Mode(given["mode"])), given, channel, events))


async def to_channel(session: Session, given: Given, channel: NamespacedName, events: Iterator[Event]) -> int:
    way = send.to_channel(session, channel, Mode(given["mode"]), via=given["via"])
    return await _send_all(way, given, channel, events)


async def _send_all(
    way: AbstractAsyncContextManager[Send], given: Given, channel: NamespacedName, events: Iterator[Event]
) -> int:
    sent, again, over = 0, 0, False
    total = given["count"] if given["type"] else None
    try:
        with Progress("sent", total, quiet=given["output"] == "json") as progress:
            async with aclosing(send.send_each(way, events, given["rate"])) as done:
                async for each in done:
                    sent += 1
                    again += bool(each.answer.get("duplicate"))
                    progress.step()
                    if given["output"] == "json":
                        show(f"{harmless(json.dumps(each.to_json, ensure_ascii=False))}\n")
                    elif total == 1:
                        say(f"sent {each.event.id} to {channel}{_where(each.answer)}")
        over = True
    finally:
        if not over and sent:
            tell(f"stopped: {counted(sent, 'event')} sent")
    if given["output"] != "json" and total != 1:
        say(f"sent {counted(sent, 'event')} to {channel}" + (f", {again} of them {STORED_BEFORE}" if again else ""))
    return 0


def _where(answer: dict[str, Any]) -> str:
    at = f" as sequence {answer['sequence']}" if "sequence" in answer else ""
    return at + (f", {STORED_BEFORE}" if answer.get("duplicate") else "")


def _from_form(form: Form, count: int) -> Iterator[Event]:
    for _ in range(count):
        try:
            yield from_form(form, lambda: str(uuid.uuid4()), stamp(datetime.now(UTC)))
        except InvalidEvent as invalid:
            raise Misconfigured(f"that is no event: {invalid}", field="--type") from None


def _from_file(name: str, *, new_ids: bool) -> Iterator[Event]:
    new_id = (lambda: str(uuid.uuid4())) if new_ids else None
    if name == "-":
        yield from (event for _, event in from_lines(sys.stdin.buffer, new_id))
        return
    try:
        with Path(name).open("rb") as lines:
            yield from (event for _, event in from_lines(lines, new_id))
    except OSError as error:
        raise Misconfigured(f"-f {name} can't be read: {error.strerror}", field="-f") from None


def _data(text: str | None) -> bytes:
    if text is None:
        return b""
    if text == "-":
        return sys.stdin.buffer.read()
    if text.startswith("@"):
        try:
            return Path(text[1:]).read_bytes()
        except OSError as error:
            raise Misconfigured(f"--data {text} can't be read: {error.strerror}", field="--data") from None
    return text.encode()

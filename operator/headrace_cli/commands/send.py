"""`send`: its words, and the order of sending."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.core.errors import InvalidEvent, Misconfigured, Refused
from headrace.core.plural import counted
from headrace_cli.catalog.names import Ref, ref
from headrace_cli.commands import params
from headrace_cli.commands.params import Given
from headrace_cli.commands.running import on_nats, tell
from headrace_cli.commands.unused import Unless

if TYPE_CHECKING:
    from headrace.core.event.event import Event
    from headrace_cli.access.session import Session
    from headrace_cli.events.send import Send

HELP = """\
Send events to a channel.

One event from options, its data from --data, --field, or standard input with --data -. Or many with -f: a file (or -
for standard input) with an event in CloudEvents' JSON format, or one on each line; lines that `tail -o json`
prints will do.

An event is its source and its id: the same two again within the stream's duplicate window (2 minutes, unless the
channel says otherwise) are the same event, and stored once. Without --id each event gets a new id, with --count each
one of its own. Those of a file keep theirs, so that a broken-off run can be repeated; --new-ids gives them new ones.

They go over HTTP to a `headrace up` that runs here, or to --url; else straight into the channel's stream, as the
receiver would store them.
"""

# Whoever sends parked events again within the window must not take it for a delivery.
STORED_BEFORE = "stored before and not delivered again: source and id are in the stream's duplicate window"
# What describes the one event of --type, and would be passed over with a file.
OF_ONE = ("id", "source", "subject", "dataschema", "named", "data", "fields", "content_type", "count")

EPILOG = params.examples("""\
  kn jetstream send orders --type shop.order --data '{"items": 3}'
  kn jetstream send shop/orders --type shop.order --field items=3 --field customer.name=Ann --extension tenant=a
  kn jetstream send orders --type load.test --data x --count 1000 --rate 100
  kn jetstream peek orders --last 10 -o json | kn jetstream send copies -f -
  kn jetstream send orders -f events.jsonl --new-ids              the same events once more, as new ones
  kn jetstream send orders --type t --data hi --url http://receive.example.com/shop/orders --mode structured
""")


def _send(**given: Any) -> int:
    from headrace_cli.events.compose import Form

    if bool(given["file"]) == bool(given["type"]):
        raise Misconfigured("give an event with --type, or events with -f: one of the two", field="--type")
    _refuse_unused(given)
    channel = ref(given["channel"], given["namespace"])
    form = None
    if given["type"]:
        attributes = {
            **given["named"],
            **{name: value for name in ("subject", "dataschema") if (value := given[name]) is not None},
        }
        if given["id"] is not None and given["count"] > 1:
            raise Misconfigured("--id makes all events the same, which are stored once: leave it out", field="--id")
        form = Form(
            type=given["type"],
            source=given["source"],
            id=given["id"],
            attributes=attributes,
            data=_data(given["data"]),
            content_type=given["content_type"],
            fields=given["fields"],
        )
    events = _from_file(given["file"], new_ids=given["new_ids"]) if form is None else _from_form(form, given["count"])
    if given["url"]:
        return _over_http(given, channel, events)
    return on_nats(given, lambda session: _in_session(session, given, channel, events))


def _refuse_unused(given: Given) -> None:
    context = click.get_current_context()
    if given["type"] and given["new_ids"]:
        raise Misconfigured(
            "--new-ids is for -f: an event of --type has a new id unless --id says one", field="--new-ids"
        )
    for option in context.command.params:
        asked = context.get_parameter_source(option.name or "") is click.core.ParameterSource.COMMANDLINE
        if given["file"] and option.name in OF_ONE and asked:
            name = max(option.opts, key=len)
            raise Misconfigured(f"{name} is for an event of --type: those of -f say it themselves", field=name)


def _over_http(given: Given, channel: Ref, events: Iterator[Event]) -> int:
    import asyncio

    from headrace_cli.events import send

    return asyncio.run(_all(send.over_http(given["url"], send.Mode(given["mode"])), given, channel, events))


async def _in_session(session: Session, given: Given, channel: Ref, events: Iterator[Event]) -> int:
    from headrace.core import names
    from headrace_cli.catalog import channels
    from headrace_cli.events import send

    mode = send.Mode(given["mode"])
    base = session.place.receive
    if base is not None and given["via"] != "nats":
        url = base + names.path(channel.namespace, channel.name)
        try:
            return await _all(send.over_http(url, mode), given, channel, events)
        except Refused as error:
            if error.status == 404:
                # Says which channels there are, where the receiver can only say which one is not.
                await channels.channel(session.api, channel)
            raise
    if given["via"] == "http":
        raise Misconfigured("--via http needs a receiver: start headrace up, or give its --url", field="--via")
    return await _all(send.over_nats(session, channel, mode), given, channel, events)


async def _all(opened: AbstractAsyncContextManager[Send], given: Given, channel: Ref, events: Iterator[Event]) -> int:
    from headrace_cli.events.send import Pace
    from headrace_cli.view.output import harmless, say
    from headrace_cli.view.progress import Progress

    pace, sent, again, over = Pace(given["rate"]), 0, 0, False
    total = given["count"] if given["type"] else None
    try:
        async with opened as send:
            with Progress("sent", total, quiet=given["output"] == "json") as progress:
                for event in events:
                    await pace.turn()
                    done = await send(event)
                    sent += 1
                    again += bool(done.answer.get("duplicate"))
                    progress.step()
                    if given["output"] == "json":
                        click.echo(harmless(json.dumps(done.to_json, ensure_ascii=False)))
                    elif total == 1:
                        say(f"sent {event.id} to {channel}{_where(done.answer)}")
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


def _from_form(form: Any, count: int) -> Iterator[Event]:
    import uuid

    from headrace_cli.events.compose import from_form
    from headrace_cli.view.units import stamp

    for _ in range(count):
        try:
            yield from_form(form, lambda: str(uuid.uuid4()), stamp(datetime.now(UTC)))
        except InvalidEvent as invalid:
            raise Misconfigured(f"that is no event: {invalid}", field="--type") from None


def _from_file(name: str, *, new_ids: bool) -> Iterator[Event]:
    import uuid

    from headrace_cli.events.compose import from_lines

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


def _named(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    from headrace_cli.events.filters import pairs

    return pairs(given, "--extension")


COMMAND = params.verb(
    "send",
    _send,
    params.Words(HELP, EPILOG, "Send events to a channel."),
    params.channel(),
    click.Option(["--type"], metavar="TYPE", help="Type of the event."),
    click.Option(["--source"], metavar="URI", default="/kn-jetstream", show_default=True, help="Its source."),
    click.Option(["--id"], metavar="ID", help="Its id. Default: a new UUID, for each of --count."),
    click.Option(["--subject"], metavar="TEXT", help="Its subject."),
    click.Option(["--dataschema"], metavar="URI", help="Its dataschema."),
    click.Option(
        ["-e", "--extension", "named"],
        multiple=True,
        metavar="NAME=VALUE",
        callback=_named,
        help="A further attribute. Repeatable.",
    ),
    click.Option(["-d", "--data"], metavar="TEXT", help="Its data; @FILE reads a file, - standard input."),
    click.Option(
        ["--field", "fields"],
        multiple=True,
        metavar="PATH=VALUE",
        help="A field of JSON data, as order.items=3; instead of --data. Repeatable.",
    ),
    click.Option(["--content-type"], metavar="TYPE", help="Of the data. Default: JSON, text or bytes, as they look."),
    click.Option(["-f", "--file"], metavar="FILE", help="Events as JSON, one or one a line; - is standard input."),
    click.Option(["--new-ids"], is_flag=True, help="Give the events of -f new ids."),
    click.Option(
        ["--count"], type=click.IntRange(1), default=1, metavar="N", show_default=True, help="So many such events."
    ),
    params.rate(),
    click.Option(
        ["--mode"],
        type=click.Choice(("binary", "structured")),
        default="binary",
        show_default=True,
        help="CloudEvents' content mode.",
    ),
    click.Option(
        ["--via"],
        type=click.Choice(("auto", "http", "nats")),
        default="auto",
        show_default=True,
        help="auto: HTTP where a receiver is known, else NATS.",
    ),
    params.address("--url", "POST there, without asking NATS."),
    formats=("table", "json"),
    rules=[
        Unless("fields", lambda given: given["data"] is None, "makes the data, and so does --data: give one"),
        Unless("nats", lambda given: not given["url"], "is not asked with --url: leave out one of the two"),
        Unless(
            "via",
            lambda given: not given["url"] or given["via"] != "nats",
            "nats does not go to a --url: leave out one of the two",
        ),
    ],
)

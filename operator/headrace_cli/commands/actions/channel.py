"""What the verbs of `channel` do, of NATS and of a cluster's objects."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from headrace.core.errors import Refused
from headrace.core.plural import counted
from headrace_cli.access.session import Session
from headrace_cli.catalog import items, listing, manifest
from headrace_cli.cluster import items as objects_as_items
from headrace_cli.cluster.items import NAMESPACE, message_column
from headrace_cli.cluster.objects import Object, Objects
from headrace_cli.commands import rules
from headrace_cli.commands.console import confirmed, say, show, show_item, show_list, tell
from headrace_cli.commands.params import channel_of, scope_of
from headrace_cli.commands.rules import Given
from headrace_cli.commands.sessions import in_cluster, on_cluster, on_nats
from headrace_cli.view.output import text_of

# Option to member of spec.stream.config.
MEMBERS = {
    "retention": "retention",
    "storage": "storage",
    "discard": "discard",
    "replicas": "replicas",
    "max_age": "maxAge",
    "max_bytes": "maxBytes",
    "max_messages": "maxMsgs",
    "duplicate_window": "duplicateWindow",
}


async def list_in_nats(session: Session, given: Given) -> int:
    scope = scope_of(given)
    found = await listing.list_channels(session, scope, datetime.now(UTC))
    where = "in this NATS" if scope.namespace is None else f"in namespace {scope.namespace}"
    others = f"; {counted(found.known, 'is', 'are')} in others: add -A" if found.known else ""
    columns = (*((NAMESPACE,) if scope.namespace is None else ()), *items.channel_columns(found.items))
    show_list(found.items, given["output"], columns, none=f"there are no channels {where}{others}")
    if session.place.bulletin.files:
        tell(f"the manifests of {session.place.source} are not what is served: {session.place.bulletin.files}")
    return 0


async def list_in_cluster(objects: Objects, given: Given) -> int:
    scope, now = scope_of(given), datetime.now(UTC)
    found = [objects_as_items.channel_item(each, now) for each in await objects.channels(scope.namespace)]
    where = "" if scope.namespace is None else f" in namespace {scope.namespace}"
    columns = (*((NAMESPACE,) if scope.namespace is None else ()), *objects_as_items.CHANNEL_COLUMNS)
    show_list(found, given["output"], (*columns, *message_column(found)), none=f"there are no channels{where}")
    return 0


async def describe_in_nats(session: Session, given: Given) -> int:
    item = await listing.describe_channel(session, channel_of(given), datetime.now(UTC))
    show_item(item, given["output"], items.channel_text)
    return 0


async def describe_in_cluster(objects: Objects, given: Given) -> int:
    item = objects_as_items.channel_item(await _object(objects, given), datetime.now(UTC))
    show_item(item, given["output"], objects_as_items.channel_text)
    return 0


def print_manifest(given: Given) -> int:
    show_document(_manifest(given), given["output"])
    return 0


async def create_in_cluster(objects: Objects, given: Given) -> int:
    made = await objects.create_channel(_manifest(given), dry_run=given["dry_run"])
    if given["dry_run"]:
        return print_manifest(given)
    show_created(f"channel {channel_of(given)} is created", made, given["output"])
    return 0


async def create_in_nats(session: Session, given: Given) -> int:
    # This imports the code of `reconcile`, which other verbs do not need.
    from headrace_cli.catalog import creation

    where, wanted = channel_of(given), _manifest(given)
    stream = await creation.create(session, where, wanted)
    show_created(f"channel {where} is created: stream {stream}", wanted, given["output"])
    return 0


async def delete_in_cluster(objects: Objects, given: Given) -> int:
    where, known = channel_of(given), await _object(objects, given)
    entries = len((known.get("spec") or {}).get("subscribers") or ())
    of_it = counted(entries, "Subscription is", "Subscriptions are")
    question = f"Channel {where} goes with its stream and the events in it; {of_it} of it. Delete it?"
    if confirmed(question, yes=given["yes"], otherwise="nothing was deleted"):
        await objects.delete_channel(where.namespace, where.name)
        say(f"channel {where} is being deleted")
    return 0


async def delete_in_nats(session: Session, given: Given) -> int:
    from headrace_cli.catalog import creation

    plan = await creation.plan_deletion(session, channel_of(given))
    question = "\n".join(plan.loss) + " Delete it?"
    if confirmed(question, yes=given["yes"], otherwise="nothing was deleted"):
        await creation.delete(session, plan)
        kept = f"; {plan.channel.aside_name} stays, with {counted(plan.parked, 'parked event')}" if plan.parked else ""
        say(f"channel {plan.channel.ref} is deleted{kept}")
    return 0


def show_document(manifest: Mapping[str, Any], output: str) -> None:
    """Show a document that may be appended to another with `>>`."""
    show(("---\n" if output == "yaml" else "") + text_of(manifest, output))


def show_created(sentence: str, made: Mapping[str, Any], output: str) -> None:
    """Show a creation: as a sentence, or as the object if a format was asked for."""
    if rules.is_given("output"):
        show_document(made, output)
    else:
        say(sentence)


def _manifest(given: Given) -> dict[str, Any]:
    config = {member: given[option] for option, member in MEMBERS.items() if given[option] is not None}
    where = channel_of(given)
    return manifest.of_channel(where, config, stream=given["stream"], annotations=given["annotations"])


async def _object(objects: Objects, given: Given) -> Object:
    where = channel_of(given)
    body = await objects.channel(where.namespace, where.name)
    if body is None:
        raise Refused(f"there is no channel {where} in this cluster", status=404)
    return body


IN_NATS = {"list": list_in_nats, "describe": describe_in_nats, "create": create_in_nats, "delete": delete_in_nats}
IN_CLUSTER = {
    "list": list_in_cluster,
    "describe": describe_in_cluster,
    "create": create_in_cluster,
    "delete": delete_in_cluster,
}


def run(verb: str, given: Given) -> int:
    if in_cluster(given):
        return on_cluster(given, IN_CLUSTER[verb])
    if verb == "create" and given["dry_run"]:
        return print_manifest(given)
    return on_nats(given, IN_NATS[verb])

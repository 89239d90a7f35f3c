"""What the verbs of `subscription` do, of NATS and of a cluster's objects."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from headrace.core.errors import Misconfigured
from headrace.core.plural import counted
from headrace.core.quoting import quoted
from headrace_cli.access.session import Session
from headrace_cli.catalog import items, listing, manifest, moves, subscriptions
from headrace_cli.catalog.moves import FOR_EVER, Move, ResetPoint
from headrace_cli.catalog.names import parse_ref
from headrace_cli.catalog.subscriptions import CatalogSubscription
from headrace_cli.cluster import items as objects_as_items
from headrace_cli.cluster.items import NAMESPACE
from headrace_cli.cluster.objects import Objects
from headrace_cli.commands.actions.channel import show_created, show_document
from headrace_cli.commands.console import confirmed, say, show_item, show_list, tell
from headrace_cli.commands.params import scope_of
from headrace_cli.commands.rules import Given
from headrace_cli.commands.sessions import in_cluster, on_cluster, on_nats
from headrace_cli.view import units

# Option to member of spec.delivery, and to the role of an address.
MEMBERS = {"retry": "retry", "backoff_delay": "backoffDelay", "backoff_policy": "backoffPolicy", "timeout": "timeout"}
ROLES = {"uri": "subscriber", "reply_uri": "reply", "dead_letter_uri": "deadLetterSink"}


async def list_in_nats(session: Session, given: Given) -> int:
    found = await listing.list_subscriptions(session, scope_of(given), datetime.now(UTC))
    columns = (*((NAMESPACE,) if given["all_namespaces"] else ()), *items.SUBSCRIPTION_COLUMNS)
    others = f"; {counted(found.known, 'is', 'are')} in other namespaces: add -A" if found.known else ""
    show_list(found.items, given["output"], columns, none=f"there are no Subscriptions{others}")
    return 0


async def list_in_cluster(objects: Objects, given: Given) -> int:
    everywhere, now = given["all_namespaces"], datetime.now(UTC)
    bodies = await objects.subscriptions(None if everywhere else given["namespace"])
    found = [objects_as_items.subscription_item(each, now) for each in bodies]
    if given["channel"]:
        wanted = parse_ref(given["channel"], given["namespace"]).name
        found = [item for item in found if item["channel"].endswith(f"/{wanted}")]
    columns = (*((NAMESPACE,) if everywhere else ()), *objects_as_items.SUBSCRIPTION_COLUMNS)
    show_list(found, given["output"], columns, none="there are no Subscriptions")
    return 0


async def describe(session: Session, given: Given) -> int:
    one = await _found(session, given)
    item = await listing.describe_subscription(session, one, datetime.now(UTC))
    show_item(item, given["output"], items.subscription_text)
    return 0


def print_manifest(given: Given) -> int:
    show_document(_manifest(given), given["output"])
    tell(
        "nothing was made: add it to a file of headrace up and send that SIGHUP, or use kubectl apply -f, or --cluster"
    )
    return 0


async def create_in_cluster(objects: Objects, given: Given) -> int:
    made = await objects.create_subscription(_manifest(given))
    where = parse_ref(given["subscription"], given["namespace"])
    show_created(f"Subscription {where} is created", made, given["output"])
    return 0


async def pause(session: Session, given: Given) -> int:
    until = _end_of_pause(given["for_"], given["until"], datetime.now(UTC))
    one = await _found(session, given)
    await moves.pause(session, one, until)
    end = "until it is resumed" if until == FOR_EVER else f"until {units.stamp(until)}"
    waiting = counted(one.pending, "event is", "events are")
    say(f"{one.ref} is paused {end}; {waiting} pending, what is handed out is finished")
    return 0


async def resume(session: Session, given: Given) -> int:
    one = await _found(session, given)
    await moves.pause(session, one, None)
    pending = counted(one.pending, "pending event")
    say(f"{one.ref} goes on with {pending}" if one.info.get("paused") else f"{one.ref} was not paused")
    return 0


async def reset(session: Session, given: Given) -> int:
    if all(given[name] in (None, False) for name in ("to_sequence", "to_time", "all", "new")):
        raise Misconfigured("say where to: --to-sequence, --to-time, --all, or --new", field="--to-sequence")
    one = await _found(session, given)
    plan = await moves.plan_reset(session, one, _reset_point(given))
    if given["dry_run"]:
        tell(f"{_consequences(one, plan)} Nothing was changed.")
    elif confirmed(f"{_consequences(one, plan)} Reset it?", yes=given["yes"], otherwise="nothing was changed"):
        await moves.reset(session, one, plan.sequence)
        say(f"{one.ref} goes on at sequence {plan.sequence}")
    return 0


async def delete(session: Session, given: Given) -> int:
    one = await _found(session, given)
    left = counted(one.pending + one.unacked, "event is", "events are")
    question = f"Consumer {one.consumer} of {one.channel.ref} goes, with its position; {left} not delivered to it."
    if one.subscriber is not None and one.state != "gone":
        question += f" Subscription {one.ref} is served by it: a running operator makes it again, from the start."
    if confirmed(f"{question} Delete it?", yes=given["yes"], otherwise="nothing was changed"):
        await moves.delete(session, one)
        say(f"{one.consumer} is deleted")
    return 0


async def _found(session: Session, given: Given) -> CatalogSubscription:
    of = parse_ref(given["channel"], given["namespace"]) if given["channel"] else None
    return await subscriptions.find(session, given["subscription"], given["namespace"], of)


def _manifest(given: Given) -> dict[str, Any]:
    ref = parse_ref(given["subscription"], given["namespace"])
    channel = parse_ref(given["channel"], ref.namespace)
    if channel.namespace != ref.namespace:
        problem = f"--channel is {quoted(given['channel'])}: a Subscription is in the namespace of its channel"
        raise Misconfigured(f"{problem}, and this one is in {quoted(ref.namespace)}", field="--channel")
    addresses = {role: given[option] for option, role in ROLES.items() if given[option]}
    delivery = {member: given[option] for option, member in MEMBERS.items() if given[option] is not None}
    return manifest.of_subscription(ref, channel.name, addresses, delivery)


def _end_of_pause(span: str | None, until: str | None, now: datetime) -> datetime:
    if span is not None:
        return now + units.asked_span(span, "--for")
    if until is None:
        return FOR_EVER
    end = units.asked_moment(until, now, "--until")
    if end <= now:
        raise Misconfigured(f"--until is {quoted(until)}, which is over: give a time to come", field="--until")
    return end


def _reset_point(given: Given) -> ResetPoint:
    if given["to_time"] is not None:
        return ResetPoint(time=units.asked_moment(given["to_time"], datetime.now(UTC), "--to-time"))
    return ResetPoint(given["to_sequence"], end="next" if given["new"] else "first")


def _consequences(one: CatalogSubscription, plan: Move) -> str:
    parts = []
    if plan.again:
        parts.append(f"gets up to {counted(plan.again, 'event')} again")
    if plan.skipped:
        parts.append(f"never gets up to {counted(plan.skipped, 'event')} that it has not settled")
    if plan.unsettled:
        parts.append(f"gives up what is under way ({counted(plan.unsettled, 'event')})")
    does = "; it ".join(parts) or "misses nothing and gets nothing twice"
    stands = f"{one.ref} has settled everything up to sequence {one.settled_to}"
    return f"{stands}. At sequence {plan.sequence} it {does}."


IN_NATS = {
    "list": list_in_nats,
    "describe": describe,
    "pause": pause,
    "resume": resume,
    "reset": reset,
    "delete": delete,
}
IN_CLUSTER = {"list": list_in_cluster, "create": create_in_cluster}


def run(verb: str, given: Given) -> int:
    if verb in IN_CLUSTER and in_cluster(given):
        return on_cluster(given, IN_CLUSTER[verb])
    return print_manifest(given) if verb == "create" else on_nats(given, IN_NATS[verb])

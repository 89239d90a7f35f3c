"""What `channel list` and `channel describe` show, of NATS, of a `headrace up`, or of a cluster's objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from headrace.core import names
from headrace.core.errors import Refused
from headrace.core.plural import counted
from headrace_cli.access.bulletin import Object
from headrace_cli.access.session import Session
from headrace_cli.catalog import items as told
from headrace_cli.catalog.channels import Channel, channel, channels, unmade
from headrace_cli.catalog.names import Ref, ref
from headrace_cli.catalog.subscriptions import subscriptions, sunk_of
from headrace_cli.cluster import items as cluster
from headrace_cli.cluster.objects import Objects
from headrace_cli.commands.params import Given
from headrace_cli.commands.running import tell
from headrace_cli.view.output import Column, show_list, show_one


async def list_channels(session: Session, given: Given) -> int:
    everywhere, namespace, now = given["all_namespaces"], given["namespace"], datetime.now(UTC)
    objects, found = _objects(session), await channels(session.api)
    known = [*found, *(unmade(where) for where in objects.keys() - {each.ref for each in found})]
    chosen = [each for each in known if everywhere or each.namespace == namespace]
    items = [
        await _item(session, each, objects, now)
        for each in sorted(chosen, key=lambda each: (each.namespace, each.name))
    ]
    columns = ((told.NAMESPACE,) if everywhere else ()) + told.CHANNEL_COLUMNS + _of_conditions(items)
    show_list(items, given["output"], columns)
    if not chosen and given["output"] == "table":
        where = "in this NATS" if everywhere else f"in namespace {namespace}"
        others = f"; {counted(len(known), 'is', 'are')} in others: add -A" if known else ""
        tell(f"there are no channels {where}{others}")
    if files := session.place.bulletin.files:
        tell(f"the manifests of {session.place.source} are not what is served: {files}")
    return 0


async def describe_channel(session: Session, given: Given) -> int:
    now, wanted, objects = datetime.now(UTC), ref(given["channel"], given["namespace"]), _objects(session)
    try:
        found = await channel(session.api, wanted)
    except Refused as error:
        if error.status != 404 or wanted not in objects:
            raise
        found = unmade(wanted)
    item = await _item(session, found, objects, now)
    served = await subscriptions(session.admin, found) if found.origin != "unmade" else []
    each = [told.subscription_item(one, now, await sunk_of(session.admin, one)) for one in served]
    whole = {**item, "subscriptions": each} if given["output"] != "table" else item
    show_one(whole, given["output"], lambda item: told.channel_text(item, each, item["conditions"] or ()))
    return 0


async def list_objects(objects: Objects, given: Given) -> int:
    now, everywhere = datetime.now(UTC), given["all_namespaces"]
    found = await objects.channels(None if everywhere else given["namespace"])
    items = [cluster.channel(each, now) for each in found]
    columns = ((told.NAMESPACE,) if everywhere else ()) + cluster.CHANNEL_COLUMNS + _message(items)
    show_list(items, given["output"], columns)
    if not found and given["output"] == "table":
        tell("there are no channels" if everywhere else f"there are no channels in namespace {given['namespace']}")
    return 0


async def describe_object(objects: Objects, given: Given) -> int:
    wanted = ref(given["channel"], given["namespace"])
    body = await objects.channel(wanted.namespace, wanted.name)
    if body is None:
        raise Refused(f"there is no channel {wanted} in this cluster", status=404)
    show_one(cluster.channel(body, datetime.now(UTC)), given["output"], cluster.channel_text)
    return 0


def _objects(session: Session) -> dict[Ref, Object]:
    bodies = session.place.bulletin.objects
    return {Ref(str(body["metadata"]["namespace"]), str(body["metadata"]["name"])): body for body in bodies}


async def _item(session: Session, found: Channel, objects: Mapping[Ref, Object], now: datetime) -> dict[str, Any]:
    parked = 0 if found.aside is None else await session.admin.count(found.aside_name, names.parked_subjects())
    consumers = int(found.info["state"].get("consumer_count", 0))
    item = told.channel_item(found, consumers, parked, now)
    body = objects.get(found.ref)
    if body is None:
        return {**item, "ready": None, "reason": "", "message": "", "conditions": None}
    return {**item, **cluster.readiness(body), "conditions": (body.get("status") or {}).get("conditions") or []}


def _of_conditions(items: Sequence[Mapping[str, Any]]) -> tuple[Column, ...]:
    """Only a `headrace up` knows conditions; of NATS alone there are none to show."""
    if all(item["ready"] is None for item in items):
        return ()
    ready: Column = ("READY", lambda item: item["ready"] or "-")
    return (ready, *_message(items))


def _message(items: Sequence[Mapping[str, Any]]) -> tuple[Column, ...]:
    if not any(item["message"] for item in items):
        return ()
    return (("MESSAGE", lambda item: ": ".join(each for each in (item["reason"], item["message"]) if each)),)

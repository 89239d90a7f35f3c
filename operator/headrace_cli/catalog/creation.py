"""What `channel create` and `channel delete` do: with an object in a cluster, or in NATS alone by `reconcile`'s story.

In NATS alone there is no object; the stream's marks say all that is known of the channel. Where an operator or a
`headrace up` keeps channels as its objects or files say, these are the place to change.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import click

from headrace.core import names
from headrace.core.channel.hook import HookRequest, HookResponse
from headrace.core.errors import Misconfigured, Refused
from headrace.core.installation.reconcile_settings import ReconcileSettings
from headrace.core.nats.stream import CREATED_KEY
from headrace.core.plural import counted
from headrace.io.process import environment
from headrace.reconcile import reconcile
from headrace_cli.access.session import Session
from headrace_cli.catalog import manifest
from headrace_cli.catalog.channels import Channel, channel, channels
from headrace_cli.catalog.names import Ref, ref
from headrace_cli.catalog.subscriptions import subscriptions
from headrace_cli.cluster.objects import CHANNEL_KIND, CHANNEL_VERSION, Objects
from headrace_cli.commands import unused
from headrace_cli.commands.params import Given
from headrace_cli.commands.running import confirmed, tell
from headrace_cli.view.output import say, text_of

# As `headrace up` makes it of a manifest without a uid, so that a file may take the channel over.
_URL = "messaging.knative.dev/{kind}/{namespace}/{name}"


def show_manifest(given: Given) -> int:
    """Only print what would be made."""
    wanted = manifest.of_channel(ref(given["channel"], given["namespace"]), given)
    click.echo(_document(wanted, given["output"]), nl=False)
    return 0


def _document(wanted: Mapping[str, Any], output: str) -> str:
    """It may be put behind another one with `>>`."""
    return ("---\n" if output == "yaml" else "") + text_of(wanted, output)


async def create_in_cluster(objects: Objects, given: Given) -> int:
    where = ref(given["channel"], given["namespace"])
    wanted = manifest.of_channel(where, given)
    made = await objects.create_channel(wanted, dry_run=given["dry_run"])
    if given["dry_run"]:
        click.echo(_document(wanted, given["output"]), nl=False)
    else:
        _tell_made(f"channel {where} is created", made, given)
    return 0


def _tell_made(sentence: str, made: Mapping[str, Any], given: Given) -> None:
    """What was made: a sentence, or the object where somebody has asked for a format."""
    if unused.asked("output"):
        click.echo(_document(made, given["output"]), nl=False)
    else:
        say(sentence)


def show_subscription(given: Given) -> int:
    """Only print the manifest."""
    wanted = manifest.of_subscription(ref(given["subscription"], given["namespace"]), given)
    click.echo(_document(wanted, given["output"]), nl=False)
    tell(
        "nothing was made: add it to a file of headrace up and send that SIGHUP, or use kubectl apply -f, or --cluster"
    )
    return 0


async def subscribe_in_cluster(objects: Objects, given: Given) -> int:
    where = ref(given["subscription"], given["namespace"])
    wanted = manifest.of_subscription(where, given)
    made = await objects.create_subscription(wanted)
    _tell_made(f"Subscription {where} is created", made, given)
    return 0


async def create_in_nats(session: Session, given: Given) -> int:
    where = ref(given["channel"], given["namespace"])
    wanted = manifest.of_channel(where, given)
    if session.place.up:
        problem = f"{session.place.source} serves what its files say: add this to one, and send it SIGHUP"
        raise Misconfigured(f"{problem}\n{text_of(wanted, 'yaml')}", field="--nats")
    if any(each.ref == where and each.origin != "gone" for each in await channels(session.api)):
        raise Refused(f"channel {where} exists", status=409)
    parent = {**wanted, "metadata": {**wanted["metadata"], "uid": _uid(where), "generation": 1}}
    answer = await _reconcile(session, "sync", parent)
    status = answer.status or {}
    conditions = status.get("conditions") or ()
    ready: dict[str, Any] = next((each for each in conditions if each["type"] == "StreamReady"), {})
    if ready.get("status") != "True":
        words = ready.get("message") or next((each.get("message", "") for each in conditions), "")
        raise Refused(f"channel {where} could not be made: {words}", status=409)
    stream = status.get("stream") or names.stream(*_pair(where))
    _tell_made(f"channel {where} is created: stream {stream}", wanted, given)
    return 0


async def delete_in_cluster(objects: Objects, given: Given) -> int:
    where = ref(given["channel"], given["namespace"])
    known = await objects.channel(where.namespace, where.name)
    if known is None:
        raise Refused(f"there is no channel {where} in this cluster", status=404)
    entries = len((known.get("spec") or {}).get("subscribers") or ())
    of_it = counted(entries, "Subscription is", "Subscriptions are")
    told = f"Channel {where} goes with its stream and the events in it; {of_it} of it."
    if not confirmed(f"{told} Delete it?", yes=given["yes"]):
        tell("nothing was deleted")
        return 0
    await objects.delete_channel(where.namespace, where.name)
    say(f"channel {where} is being deleted")
    return 0


async def delete_in_nats(session: Session, given: Given) -> int:
    found = await channel(session.api, ref(given["channel"], given["namespace"]))
    if session.place.up:
        problem = f"{session.place.source} serves what its files say"
        raise Misconfigured(f"{problem}: take {found.ref} out of them, and send it SIGHUP", field="--nats")
    if found.origin == "peer" or CREATED_KEY in (found.info["config"].get("metadata") or {}):
        raise Refused(f"{found.ref} was made by the Go channel: delete its object, or use the nats CLI", status=409)
    parked = 0 if found.aside is None else await session.admin.count(found.aside_name, names.parked_subjects())
    if not confirmed(await _question(session, found, parked), yes=given["yes"]):
        tell("nothing was deleted")
        return 0
    answer = await _reconcile(session, "finalize", _parent(found))
    if not answer.finalized:
        words = "; ".join(each.get("message", "") for each in (answer.status or {}).get("conditions") or ())
        raise Refused(f"channel {found.ref} could not be deleted: {words}", status=409)
    kept = f"; {found.aside_name} stays, with {counted(parked, 'parked event')}" if parked else ""
    say(f"channel {found.ref} is deleted{kept}")
    return 0


async def _question(session: Session, found: Channel, parked: int) -> str:
    lines = [f"Channel {found.ref} goes with {counted(found.info['state']['messages'], 'event')}."]
    for one in await subscriptions(session.admin, found):
        if one.pending + one.unacked:
            lines.append(f"  {one.ref} has not settled {one.pending + one.unacked} of them")
    if parked:
        lines.append(f"  {counted(parked, 'parked event is', 'parked events are')} kept in {found.aside_name}")
    lines.append("An operator that has an object of that name makes it again, empty. Delete it?")
    return "\n".join(lines)


def _parent(found: Channel) -> dict[str, Any]:
    """The object as far as the marks tell."""
    adopted = {"stream": {"overrideName": found.stream}} if found.stream != names.stream(*_pair(found.ref)) else {}
    metadata = {"name": found.name, "namespace": found.namespace, "uid": found.uid, "generation": 1}
    return {"apiVersion": CHANNEL_VERSION, "kind": CHANNEL_KIND, "metadata": metadata, "spec": adopted}


async def _reconcile(session: Session, verb: str, parent: dict[str, Any]) -> HookResponse:
    body = HookRequest(parent, finalizing=verb == "finalize").to_json()
    settings = environment.read(ReconcileSettings)
    answer = await reconcile(verb, body, api=session.admin, settings=settings, now=datetime.now(UTC))
    return HookResponse.from_json(answer)


def _uid(where: Ref) -> str:
    url = _URL.format(kind=CHANNEL_KIND, namespace=where.namespace, name=where.name)
    return str(uuid.uuid5(uuid.NAMESPACE_URL, url))


def _pair(where: Ref) -> tuple[str, str]:
    return where.namespace, where.name

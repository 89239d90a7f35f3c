"""Makes channels in NATS alone, by `reconcile`'s story, and deletes them there.

In NATS alone there is no object; the stream's marks say all that is known of the channel. Where an operator or a
`headrace up` keeps channels as its objects or files say, these are the place to change.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from headrace.core import names
from headrace.core.channel.hook import HookRequest, HookResponse
from headrace.core.errors import Misconfigured, Refused
from headrace.core.installation.reconcile_settings import ReconcileSettings
from headrace.core.manifest.own_address import API_VERSION, KIND
from headrace.core.nats.stream import CREATED_KEY
from headrace.core.plural import counted
from headrace.io.process import environment
from headrace.reconcile import reconcile
from headrace_cli.access.session import Session
from headrace_cli.catalog.channels import CatalogChannel, channel, channels
from headrace_cli.catalog.names import NamespacedName
from headrace_cli.catalog.subscriptions import subscriptions
from headrace_cli.view.output import text_of

# `headrace up` makes the uid of a manifest without one from the same URL, so that a file may take the channel over.
_URL = "messaging.knative.dev/{kind}/{namespace}/{name}"


async def create(session: Session, where: NamespacedName, manifest: Mapping[str, Any]) -> str:
    """Make a channel; gives the name of its stream.

    Raises:
        Misconfigured: a `headrace up` serves only its files' channels. Refused: 409, the channel exists, or can't be
            made.
    """
    if session.place.up:
        problem = f"{session.place.source} serves what its files say: add this to one, and send it SIGHUP"
        raise Misconfigured(f"{problem}\n{text_of(manifest, 'yaml')}", field="--nats")
    if any(each.ref == where and each.origin != "gone" for each in await channels(session.api)):
        raise Refused(f"channel {where} exists", status=409)
    parent = {**manifest, "metadata": {**manifest["metadata"], "uid": _uid(where), "generation": 1}}
    status = (await _reconcile(session, "sync", parent)).status or {}
    conditions = status.get("conditions") or ()
    ready: dict[str, Any] = next((each for each in conditions if each["type"] == "StreamReady"), {})
    if ready.get("status") != "True":
        words = ready.get("message") or next((each.get("message", "") for each in conditions), "")
        raise Refused(f"channel {where} could not be made: {words}", status=409)
    return str(status.get("stream") or names.stream(where.namespace, where.name))


@dataclass(frozen=True, slots=True)
class Deletion:
    """The consequences of deleting a channel.

    Attributes:
        loss: lines that say which data go and which stay.
        parked: how many events are parked; they stay in the aside stream.
    """

    channel: CatalogChannel
    loss: tuple[str, ...]
    parked: int


async def plan_deletion(session: Session, where: NamespacedName) -> Deletion:
    """Raises:
    Misconfigured: a `headrace up` serves the channel. Refused: 404, there is none; 409, it is the Go channel's.
    """
    found = await channel(session.api, where)
    if session.place.up:
        problem = f"{session.place.source} serves what its files say"
        raise Misconfigured(f"{problem}: take {found.ref} out of them, and send it SIGHUP", field="--nats")
    if found.origin == "peer" or CREATED_KEY in (found.info["config"].get("metadata") or {}):
        raise Refused(f"{found.ref} was made by the Go channel: delete its object, or use the nats CLI", status=409)
    parked = 0 if found.aside is None else await session.admin.count(found.aside_name, names.parked_subjects())
    lines = [f"Channel {found.ref} goes with {counted(found.info['state']['messages'], 'event')}."]
    for one in await subscriptions(session.admin, found):
        if one.pending + one.unacked:
            lines.append(f"  {one.ref} has not settled {one.pending + one.unacked} of them")
    if parked:
        lines.append(f"  {counted(parked, 'parked event is', 'parked events are')} kept in {found.aside_name}")
    lines.append("An operator that has an object of that name makes it again, empty.")
    return Deletion(found, tuple(lines), parked)


async def delete(session: Session, plan: Deletion) -> None:
    """Raises Refused: 409, the channel can't be deleted."""
    found = plan.channel
    # The channel object, rebuilt from the marks.
    adopted = found.stream != names.stream(found.namespace, found.name)
    spec = {"stream": {"overrideName": found.stream}} if adopted else {}
    metadata = {"name": found.name, "namespace": found.namespace, "uid": found.uid, "generation": 1}
    parent = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}
    answer = await _reconcile(session, "finalize", parent)
    if not answer.finalized:
        words = "; ".join(each.get("message", "") for each in (answer.status or {}).get("conditions") or ())
        raise Refused(f"channel {found.ref} could not be deleted: {words}", status=409)


async def _reconcile(session: Session, verb: str, parent: dict[str, Any]) -> HookResponse:
    body = HookRequest(parent, finalizing=verb == "finalize").to_json()
    # Whoever calls this has NATS himself, so that no name is kept from him.
    settings = environment.fill(ReconcileSettings).model_copy(update={"names": "any"})
    answer = await reconcile(verb, body, api=session.admin, settings=settings, now=datetime.now(UTC))
    return HookResponse.from_json(answer)


def _uid(where: NamespacedName) -> str:
    url = _URL.format(kind=KIND, namespace=where.namespace, name=where.name)
    return str(uuid.uuid5(uuid.NAMESPACE_URL, url))

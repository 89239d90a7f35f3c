"""What `hand-back` does, in which order. Its words are in `headrace_cli.commands`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.core import names
from headrace.core.delivery.subscriber import SubscriberState
from headrace.core.errors import Misconfigured, Refused, Unavailable
from headrace.core.plural import counted
from headrace.io.nats.contract import Broken
from headrace_cli.access.session import Session
from headrace_cli.catalog.channels import Channel, channel, channels
from headrace_cli.catalog.names import ref
from headrace_cli.catalog.subscriptions import Subscription, subscriptions
from headrace_cli.cluster.objects import Objects
from headrace_cli.commands.params import Given
from headrace_cli.commands.running import confirmed, tell
from headrace_cli.hand_back.hand_over import HandOver
from headrace_cli.view.output import say

# Long for a server to say that nobody listens, which it does at once.
LISTENER_SECONDS = 1.0
NOBODY = "503"
NO_STREAM = "hand-back"

Plan = tuple[Channel, Sequence[Subscription]]


async def hand_back(session: Session, given: Given, objects: Objects | None) -> int:
    """The exit status: 1 when some could not be handed back.

    Args:
        objects: of the cluster that says which consumerType a channel has; None: the options say it.
    """
    if session.place.up:
        problem = f"{session.place.source} serves these channels: it is not the Go channel's"
        raise Misconfigured(problem, field="--nats")
    plans = [(each, _ours(await subscriptions(session.admin, each))) for each in await _chosen(session, given)]
    if not plans:
        tell("there is nothing of ours to hand back")
        return 0
    if not given["force"]:
        _refuse_served(plans)
        await _refuse_operator(session)
    question = "\n".join(line for plan in plans for line in _told(plan))
    if given["dry_run"]:
        tell(f"{question}\nNothing was changed.")
        return 0
    if not confirmed(f"{question}\nHand them back?", yes=given["yes"]):
        tell("nothing was changed")
        return 0
    failed = 0
    for plan in plans:
        try:
            await _hand_over(session, plan, pull=await _is_pull(plan[0], given, objects))
        except Refused as error:
            failed += 1
            tell(f"{plan[0].ref} is not handed back wholly: {error}")
    return 1 if failed else 0


async def _chosen(session: Session, given: Given) -> list[Channel]:
    if (given["channel"] is None) == (not given["all_namespaces"]):
        raise Misconfigured("name one channel, or all with -A", field="CHANNEL")
    if given["channel"] is not None:
        found = [await channel(session.api, ref(given["channel"], given["namespace"]))]
    else:
        found = await channels(session.api)
    wanted = [each for each in found if each.origin not in ("peer", "gone")]
    for each in wanted:
        if not names.is_plain(each.namespace, each.name):
            raise Refused(
                f"{each.ref} has a name for which the Go channel has another stream and subject: it can't be handed "
                "back; drain it (docs/migration.md)",
                status=409,
            )
    return wanted


def _ours(known: Sequence[Subscription]) -> list[Subscription]:
    return [one for one in known if one.subscriber is not None or one.damage]


def _refuse_served(plans: Sequence[Plan]) -> None:
    served = [one for _, known in plans for one in known if one.waiting or _pinned(one.info)]
    if served:
        some = ", ".join(f"{one.channel.ref} for {one.ref}" for one in served[:5])
        raise Refused(
            f"{counted(len(served), 'consumer is', 'consumers are')} served just now ({some}): stop the operator, "
            "whose leases end within their length, and do this again; --force does it all the same, and what is in a "
            "lease's hands comes twice",
            status=409,
        )


async def _refuse_operator(session: Session) -> None:
    """An operator that has nothing to deliver opens no lease, but hears of new events all the while."""
    try:
        # Of a stream that it does not know, so that it does nothing upon it.
        answer = await session.client.request(names.wake_subject(NO_STREAM), timeout=LISTENER_SECONDS)
    except Refused:
        # Whoever may not ask can't be told.
        return
    except Broken:
        raise Unavailable("the connection to NATS broke: do this again") from None
    except Unavailable:
        # It hears, and never answers.
        answer = None
    if answer is None or answer.status != NOBODY:
        raise Refused(
            f"an operator is at work: somebody listens to {names.wake_subject('>')}, and would take the channels over "
            "again; stop it, and do this again. --force does it all the same",
            status=409,
        )


def _is_gone(one: Subscription) -> bool:
    return one.subscriber is not None and one.subscriber.state is SubscriberState.GONE


def _pinned(info: dict[str, Any]) -> bool:
    return any(group.get("pinned_client_id") for group in info.get("priority_groups") or ())


def _told(plan: Plan) -> list[str]:
    where, known = plan
    lines = [f"Channel {where.ref} goes back to the Go channel, with {counted(len(known), 'Subscription')}."]
    for one in known:
        if _is_gone(one):
            lines.append(f"  {one.ref} is no more: {one.consumer} is deleted")
        elif one.unacked:
            lines.append(
                f"  {one.ref} has up to {counted(one.unacked, 'event')} unsettled, which its subscriber may get again"
            )
    return lines


async def _is_pull(where: Channel, given: Given, objects: Objects | None) -> bool:
    if objects is None:
        return bool(given["pull"])
    known = await objects.channel(where.namespace, where.name)
    template = ((known or {}).get("spec") or {}).get("consumerConfigTemplate") or {}
    return template.get("consumerType") == "Pull"


async def _hand_over(session: Session, plan: Plan, *, pull: bool) -> None:
    where, known = plan
    work = HandOver(session, where, pull=pull)
    damaged = [one.consumer for one in known if one.damage]
    served: set[str] = set()
    # One that is served before one on its way out; and one that stands in for another, as an interrupted run or a
    # take-over leaves it, behind that: it has the longer name.
    for one in sorted(known, key=lambda each: (_is_gone(each), each.consumer)):
        if one.subscriber is not None:
            await work.consumer(one, spare=one.subscriber.uid in served)
            served.add(one.subscriber.uid)
    if damaged:
        names_of = ", ".join(damaged)
        raise Refused(f"the metadata of {names_of} are damaged: let the operator mend them, or delete them", status=409)
    gone = await work.streams()
    kept = "" if gone else f"; {where.aside_name} stays, for what is parked in it"
    say(f"{where.ref} is handed back, with {counted(len(known), 'Subscription')}{kept}")

"""The way of channels back to the Go channel: which may go, what that means, and the steps of each in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headrace.core import names
from headrace.core.delivery.subscriber import SubscriberState
from headrace.core.errors import Misconfigured, Refused, Unavailable
from headrace.core.plural import counted
from headrace.io.nats.contract import Broken
from headrace_cli.access.session import Session
from headrace_cli.catalog.channels import CatalogChannel, channel, channels
from headrace_cli.catalog.names import ChannelScope
from headrace_cli.catalog.subscriptions import CatalogSubscription, subscriptions
from headrace_cli.hand_back.hand_over import HandOver

# A server says at once that nobody listens, so this is long.
LISTENER_SECONDS = 1.0
NOBODY = "503"
NO_STREAM = "hand-back"


@dataclass(frozen=True, slots=True)
class Return:
    """One channel that goes back, with the Subscriptions of it that we serve."""

    channel: CatalogChannel
    subscriptions: tuple[CatalogSubscription, ...]

    def consequences(self) -> list[str]:
        of = counted(len(self.subscriptions), "Subscription")
        lines = [f"Channel {self.channel.ref} goes back to the Go channel, with {of}."]
        for one in self.subscriptions:
            left = counted(one.unacked, "event")
            if _is_gone(one):
                lines.append(f"  {one.ref} is no more: {one.consumer} is deleted")
            elif one.unacked:
                lines.append(f"  {one.ref} has up to {left} unsettled, which its subscriber may get again")
        return lines


async def plan(session: Session, scope: ChannelScope, *, force: bool) -> list[Return]:
    """The channels of a scope that can go back; empty where none is ours.

    Args:
        force: go on also while an operator is at work or a consumer is served.

    Raises:
        Misconfigured: a `headrace up` serves them, or the scope is a namespace. Refused: 409, a channel can't go back,
            or not now.
    """
    if session.place.up:
        problem = f"{session.place.source} serves these channels: it is not the Go channel's"
        raise Misconfigured(problem, field="--nats")
    plans = []
    for each in await _chosen(session, scope):
        known = await subscriptions(session.admin, each)
        plans.append(Return(each, tuple(one for one in known if one.subscriber is not None or one.damage)))
    if plans and not force:
        _refuse_served(plans)
        await _refuse_operator(session)
    return plans


async def hand_over(session: Session, plan: Return, *, pull: bool) -> bool:
    """Give one channel back; says whether its aside stream is gone, which was empty then.

    Args:
        pull: the channel's consumerType is Pull.

    Raises:
        Refused: 409, the channel is not handed back wholly.
    """
    work = HandOver(session, plan.channel, pull=pull)
    served: set[str] = set()
    # Consumers that are served come before those on their way out. One that stands in for another, left by an
    # interrupted run or a take-over, comes behind the other, since its name is longer.
    for one in sorted(plan.subscriptions, key=lambda each: (_is_gone(each), each.consumer)):
        if one.subscriber is not None:
            await work.consumer(one, spare=one.subscriber.uid in served)
            served.add(one.subscriber.uid)
    if damaged := ", ".join(one.consumer for one in plan.subscriptions if one.damage):
        raise Refused(f"the metadata of {damaged} are damaged: let the operator mend them, or delete them", status=409)
    return await work.streams()


async def _chosen(session: Session, scope: ChannelScope) -> list[CatalogChannel]:
    if scope.channel is None and scope.namespace is not None:
        raise Misconfigured("name one channel, or all with -A", field="CHANNEL")
    found = await channels(session.api) if scope.channel is None else [await channel(session.api, scope.channel)]
    wanted = [each for each in found if each.origin not in ("peer", "gone")]
    for each in wanted:
        if not names.is_plain(each.namespace, each.name):
            raise Refused(
                f"{each.ref} has a name for which the Go channel has another stream and subject: it can't be handed "
                "back; drain it (docs/migration.md)",
                status=409,
            )
    return wanted


def _refuse_served(plans: Sequence[Return]) -> None:
    served = [one for each in plans for one in each.subscriptions if one.waiting or _pinned(one.info)]
    if served:
        some = ", ".join(f"{one.channel.ref} for {one.ref}" for one in served[:5])
        raise Refused(
            f"{counted(len(served), 'consumer is', 'consumers are')} served just now ({some}): stop the operator, "
            "whose leases end within their length, and do this again; --force does it all the same, and what is in a "
            "lease's hands comes twice",
            status=409,
        )


async def _refuse_operator(session: Session) -> None:
    """Refuse while an operator listens: without events to deliver it opens no lease, but it always hears the hints."""
    try:
        # The hint names a stream that no operator knows, so that it does nothing.
        answer = await session.client.request(names.wake_subject(NO_STREAM), timeout=LISTENER_SECONDS)
    except Refused:
        # A user without the right to ask learns nothing.
        return
    except Broken:
        raise Unavailable("the connection to NATS broke: do this again") from None
    except Unavailable:
        # An operator hears the hint, and never answers.
        answer = None
    if answer is None or answer.status != NOBODY:
        raise Refused(
            f"an operator is at work: somebody listens to {names.wake_subject('>')}, and would take the channels over "
            "again; stop it, and do this again. --force does it all the same",
            status=409,
        )


def _is_gone(one: CatalogSubscription) -> bool:
    return one.subscriber is not None and one.subscriber.state is SubscriberState.GONE


def _pinned(info: dict[str, Any]) -> bool:
    return any(group.get("pinned_client_id") for group in info.get("priority_groups") or ())

"""What `hand-back` does: it says what it means, asks, and hands one channel over after the other."""

from __future__ import annotations

from headrace.core.errors import Refused
from headrace.core.plural import counted
from headrace_cli.access.session import Session
from headrace_cli.catalog.channels import CatalogChannel
from headrace_cli.cluster.objects import Objects
from headrace_cli.commands.console import confirmed, say, tell
from headrace_cli.commands.params import scope_of
from headrace_cli.commands.rules import Given
from headrace_cli.hand_back import plan
from headrace_cli.hand_back.plan import Return


async def hand_back(session: Session, given: Given, objects: Objects | None) -> int:
    """Hand channels back; gives the exit status: 1 when some could not be handed back.

    Args:
        objects: those of a cluster, which have each channel's consumerType; None: the options have it.
    """
    plans = await plan.plan(session, scope_of(given), force=given["force"])
    if not plans:
        tell("there is nothing of ours to hand back")
        return 0
    question = "\n".join(line for each in plans for line in each.consequences())
    if given["dry_run"]:
        tell(f"{question}\nNothing was changed.")
        return 0
    if not confirmed(f"{question}\nHand them back?", yes=given["yes"], otherwise="nothing was changed"):
        return 0
    return max([await _hand_over(session, each, given, objects) for each in plans])


async def _hand_over(session: Session, each: Return, given: Given, objects: Objects | None) -> int:
    try:
        pull = given["pull"] if objects is None else await _is_pull(objects, each.channel)
        gone = await plan.hand_over(session, each, pull=pull)
    except Refused as error:
        tell(f"{each.channel.ref} is not handed back wholly: {error}")
        return 1
    kept = "" if gone else f"; {each.channel.aside_name} stays, for what is parked in it"
    say(f"{each.channel.ref} is handed back, with {counted(len(each.subscriptions), 'Subscription')}{kept}")
    return 0


async def _is_pull(objects: Objects, where: CatalogChannel) -> bool:
    known = await objects.channel(where.namespace, where.name)
    template = ((known or {}).get("spec") or {}).get("consumerConfigTemplate") or {}
    return template.get("consumerType") == "Pull"

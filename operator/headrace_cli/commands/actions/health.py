"""What `report`, `check`, `doctor` and `step-down` do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import aclosing

from headrace.core.errors import HeadraceError, Misconfigured, Refused, Unavailable
from headrace.core.quoting import plain, plain_lines
from headrace_cli.access import place as places
from headrace_cli.access.place import Place
from headrace_cli.access.session import Session, session
from headrace_cli.catalog.channels import channel
from headrace_cli.catalog.subscriptions import subscriptions, the_one
from headrace_cli.cluster.objects import Objects
from headrace_cli.commands.console import say, show, tell
from headrace_cli.commands.params import channel_of, scope_of
from headrace_cli.commands.rules import Given
from headrace_cli.commands.sessions import in_cluster, in_place, on_cluster, on_nats
from headrace_cli.health import check, doctor, facts, finding, leadership
from headrace_cli.health import report as numbers
from headrace_cli.health.check import Limits, Status
from headrace_cli.health.finding import Finding, Severity
from headrace_cli.health.findings import SYNC_UNSEEN
from headrace_cli.view.output import text_of

LIMITS = ("pending", "unsettled", "parked", "sunk", "used", "stalled")


async def report(connected: Session, given: Given) -> int:
    reports = numbers.reports(connected, scope_of(given), given["interval"], again=given["watch"])
    async with aclosing(reports) as found:
        async for each in found:
            if given["output"] == "table":
                show(plain_lines(numbers.text(each)) + ("\n" if given["watch"] else ""))
            elif given["watch"]:
                show(f"{json.dumps(each)}\n")
            else:
                show(text_of(each, given["output"]))
    return 0


async def run_check(place: Place, given: Given) -> int:
    """Check; gives the exit status of a monitoring plugin, to which an error is a status, too."""
    try:
        limits = Limits(
            **{
                name: check.parse_limit(given[name], f"--{name.replace('_', '-')}")
                for name in LIMITS
                if given[name] is not None
            }
        )
        scope = scope_of(given)
        async with session(place) as connected:
            known = await facts.gather(connected, scope)
        if not known.channels and scope.namespace is not None:
            # A monitor without any channel must not report OK for ever.
            raise Misconfigured(f"there is no channel in namespace {scope.namespace}: add -A, or name one", field="-n")
    except (Unavailable, Refused) as error:
        return _failed(given, Status.CRITICAL, error)
    except HeadraceError as error:
        return _failed(given, Status.UNKNOWN, error)
    found = check.troubles(known, limits)
    status = check.status_of(found)
    show(check.prometheus(known, status) if given["prometheus"] else plain_lines(check.text(known, found)))
    return int(status)


def _failed(given: Given, status: Status, error: HeadraceError) -> int:
    if given["prometheus"]:
        show(f"# TYPE headrace_check_status gauge\nheadrace_check_status {int(status)}\n")
        tell(str(error))
    else:
        show(f"{status.name} - {plain(str(error))}\n")
    return int(status)


async def examine(place: Place, given: Given) -> int:
    """Examine NATS; gives the exit status: 1 when a fault keeps events from arriving."""
    found = await doctor.examine_up(place, scope_of(given))
    # The server of a `headrace up` is for trying.
    return await _show_all(found, given, unseen=not place.bulletin.objects)


async def examine_cluster(objects: Objects, given: Given) -> int:
    """Examine a cluster's objects, and also NATS if its address was given; gives the exit status as `examine`."""
    scope = scope_of(given)
    bodies = doctor.in_scope(await objects.channels(scope.namespace), scope)
    if scope.channel is not None and not bodies:
        raise Refused(f"there is no channel {scope.channel} in this cluster", status=404)
    at = places.find(given["nats"])
    if at.named:
        found = await doctor.examine(at, scope, bodies)
        return await _show_all(found, given)
    tell("only the cluster's objects were looked at, not what is in NATS: say where it is with --nats")
    return await _show_all(doctor.examine_objects(bodies), given, unseen=False)


async def _show_all(found: Sequence[Finding], given: Given, *, unseen: bool = True) -> int:
    try:
        of_servers = await _syncing(found, given, unseen=unseen)
    except Misconfigured:
        # A port that tells nothing hides nothing.
        _show(found, (), given)
        raise
    return _show(found, of_servers, given)


async def _syncing(found: Sequence[Finding], given: Given, *, unseen: bool = True) -> list[Finding]:
    """When the servers write down what they acknowledge; where that is not seen, the question to ask, once all is well.

    Args:
        unseen: is the question worth asking?
    """
    if given["monitor"]:
        # Imported here: it brings an HTTP client, which takes more time than the other verbs together.
        from headrace_cli.health import syncing

        return await syncing.findings(given["monitor"])
    return [SYNC_UNSEEN] if unseen and not _wrong(found) else []


def _wrong(found: Sequence[Finding]) -> bool:
    return any(each.severity > Severity.NOTE for each in found)


def _show(found: Sequence[Finding], of_servers: Sequence[Finding], given: Given) -> int:
    """Args:
    of_servers: notes about the servers, beside which all may be well.
    """
    if given["output"] == "table":
        show("\n".join(finding.text(part) for part in (found, of_servers) if part or part is found))
    else:
        show(text_of({"items": [finding.as_item(each) for each in (*found, *of_servers)]}, given["output"]))
    return 1 if _wrong(found) else 0


async def step_down(connected: Session, given: Given) -> int:
    found, one = await channel(connected.api, channel_of(given)), None
    if given["subscription"]:
        one = the_one(await subscriptions(connected.admin, found), given["subscription"], found.namespace)
    election = await leadership.step_down(connected, found, one)
    say(f"{election.of} was led by {election.before or 'nobody'}, and is led by {election.leader}")
    return 0


IN_SESSION = {"report": report, "step-down": step_down}
# These verbs report it themselves when NATS is away.
IN_PLACE = {"check": run_check, "doctor": examine}


def run(verb: str, given: Given) -> int:
    if verb == "doctor" and in_cluster(given):
        return on_cluster(given, examine_cluster)
    return in_place(given, IN_PLACE[verb]) if verb in IN_PLACE else on_nats(given, IN_SESSION[verb])

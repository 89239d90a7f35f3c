"""What `report`, `check`, `doctor` and `step-down` do, in order. Their words are in `headrace_cli.commands.health`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import click

from headrace.core.errors import HeadraceError, Misconfigured, Refused, Unavailable
from headrace.core.nats.api_error import ApiError
from headrace_cli.access import place
from headrace_cli.access.place import Place
from headrace_cli.access.session import Session, session
from headrace_cli.catalog.channels import channel
from headrace_cli.catalog.names import ref
from headrace_cli.catalog.subscriptions import subscriptions, the_one
from headrace_cli.cluster.objects import Objects
from headrace_cli.commands.params import Given
from headrace_cli.commands.running import tell
from headrace_cli.health import check, facts, report
from headrace_cli.health.check import Limits, Status
from headrace_cli.health.facts import Facts
from headrace_cli.health.finding import Finding, Severity
from headrace_cli.health.findings import by_severity, findings
from headrace_cli.health.object_rules import of_objects
from headrace_cli.view.output import plain, say, sentences, text_of

CONNECT_SECONDS = 2.0
# Elections take a second or two.
LOOKS, LOOK_SECONDS = 50, 0.2
NOT_ENABLED_FOR_ACCOUNT = 10039
NOT_CLUSTERED = 10010


async def show_report(connected: Session, given: Given) -> int:
    """Two looks for the rates, or one look after the other with `--watch`."""
    before = await _gather(connected, given)
    seconds = given["interval"]
    while True:
        if seconds:
            await asyncio.sleep(seconds)
        now = await _gather(connected, given) if seconds else before
        told = report.report(now, before if seconds else None)
        if given["output"] == "table":
            click.echo(sentences(report.text(told)) + ("\n" if given["watch"] else ""), nl=False)
        elif given["watch"]:
            click.echo(json.dumps(told))
        else:
            click.echo(text_of(told, given["output"]), nl=False)
        if not given["watch"]:
            return 0
        before, seconds = now, given["interval"] or 1.0


async def run_check(place: Place, given: Given) -> int:
    """The exit status of a monitoring plugin; whatever goes wrong is a status, too."""
    try:
        limits = Limits(
            **{
                name: check.limit(given[name], f"--{name.replace('_', '-')}")
                for name in ("pending", "unsettled", "parked", "sunk", "used", "stalled")
                if given[name] is not None
            }
        )
        async with session(place) as connected:
            known = await _gather(connected, given)
        if not known.channels and not given["all_namespaces"]:
            # A monitor that looks at nothing must not be content for ever.
            where = f"namespace {given['namespace']}"
            raise Misconfigured(f"there is no channel in {where}: add -A, or name one", field="-n")
    except (Unavailable, Refused) as error:
        return _failed(given, Status.CRITICAL, error)
    except HeadraceError as error:
        return _failed(given, Status.UNKNOWN, error)
    found = check.troubles(known, limits)
    status = check.status_of(found)
    click.echo(
        check.prometheus(known, status) if given["prometheus"] else sentences(check.text(known, found)), nl=False
    )
    return int(status)


def _failed(given: Given, status: Status, error: HeadraceError) -> int:
    if given["prometheus"]:
        click.echo(f"# TYPE headrace_check_status gauge\nheadrace_check_status {int(status)}")
        say(str(error), err=True)
    else:
        click.echo(f"{status.name} - {plain(str(error))}")
    return int(status)


async def examine(place: Place, given: Given) -> int:
    """Say what is wrong; 1 when anything is that keeps events from arriving."""
    told = place.bulletin
    found = await _all_findings(place, given, _chosen(told.objects, given))
    if told.files:
        do = "mend the file, and send SIGHUP to headrace up again; what it served before goes on"
        found.append(Finding(Severity.PROBLEM, "files-refused", place.source, told.files, do))
    return _say(found, given)


async def examine_cluster(objects: Objects, given: Given) -> int:
    """The same of a cluster's objects; and of what is in NATS, where somebody has said where that is."""
    bodies = _chosen(await objects.channels(None if given["all_namespaces"] else _namespace(given)), given)
    if given["channel"] and not bodies:
        raise Refused(f"there is no channel {ref(given['channel'], given['namespace'])} in this cluster", status=404)
    at = place.find(given["nats"])
    if at.named:
        return _say(await _all_findings(at, given, bodies), given)
    tell("only the cluster's objects were looked at, not what is in NATS: say where it is with --nats")
    return _say(by_severity(of_objects(bodies, nats_asked=False)), given)


def _namespace(given: Given) -> str:
    return ref(given["channel"], given["namespace"]).namespace if given["channel"] else str(given["namespace"])


def _chosen(objects: Iterable[Mapping[str, Any]], given: Given) -> list[Mapping[str, Any]]:
    """Those that the command is about."""
    wanted = ref(given["channel"], given["namespace"]) if given["channel"] else None
    return [
        body
        for body in objects
        if (wanted is None or body["metadata"]["name"] == wanted.name)
        and (given["all_namespaces"] or body["metadata"].get("namespace") == _namespace(given))
    ]


def _say(found: list[Finding], given: Given) -> int:
    if given["output"] == "table":
        click.echo(_told(found), nl=False)
    else:
        click.echo(text_of({"items": [_item(each) for each in found]}, given["output"]), nl=False)
    return 1 if any(each.severity > Severity.NOTE for each in found) else 0


async def step_down(connected: Session, given: Given) -> int:
    """Ask a leader to go, and say who leads then."""
    found = await channel(connected.api, ref(given["channel"], given["namespace"]))
    if given["subscription"]:
        one = the_one(await subscriptions(connected.admin, found), given["subscription"], found.namespace)
        kind, path, name = "CONSUMER", f"{found.stream}.{one.consumer}", f"the consumer of {one.ref}"
    else:
        kind, path, name = "STREAM", found.stream, f"stream {found.stream}"
    before = await _leader(connected, kind, path)
    try:
        await connected.api.call(f"{kind}.LEADER.STEPDOWN.{path}")
    except ApiError as error:
        if error.err_code != NOT_CLUSTERED:
            raise
        raise Refused(
            f"this NATS is a single server: there is no other that could lead {name}", status=error.code
        ) from None
    # It may be the same again; without any, nobody has been chosen yet.
    for _ in range(LOOKS):
        if leader := await _leader(connected, kind, path):
            break
        await asyncio.sleep(LOOK_SECONDS)
    else:
        raise Unavailable(f"{name} has no leader yet: which servers are away? `kn jetstream doctor` may know")
    say(f"{name} was led by {before or 'nobody'}, and is led by {leader}")
    return 0


async def _leader(connected: Session, kind: str, path: str) -> str:
    with suppress(Unavailable):
        info = await connected.api.call(f"{kind}.INFO.{path}", timeout=1.0)
        return str((info.get("cluster") or {}).get("leader", ""))
    return ""


async def _all_findings(at: Place, given: Given, bodies: Sequence[Mapping[str, Any]]) -> list[Finding]:
    said = [*of_objects(bodies, nats_asked=True)]
    found = [*await _receiver(at)]
    try:
        async with session(at) as connected:
            known = findings(facts.beside_objects(await _gather(connected, given), bodies))
    except Unavailable as error:
        return [*found, _unreachable(at, error), *said]
    except Refused as error:
        if given["channel"] and error.status == 404:
            if not bodies:
                raise
            # It is asked for, and could not be made.
            return by_severity(said)
        off = isinstance(error, ApiError) and error.err_code == NOT_ENABLED_FOR_ACCOUNT
        return [*found, _unreachable(at, error) if off else _forbidden(error), *said]
    if bodies:
        # Which says why there is none.
        known = [each for each in known if each.code != "no-channel"]
    return [*found, *by_severity([*said, *known])]


async def _gather(connected: Session, given: Given) -> Facts:
    if given["channel"]:
        wanted = ref(given["channel"], given["namespace"])
        known = await facts.gather(connected, wanted.namespace, wanted.name)
        if not known.channels:
            raise Refused(
                f"there is no channel {wanted}: `kn jetstream channel list -A` shows what there is", status=404
            )
        return known
    return await facts.gather(connected, None if given["all_namespaces"] else given["namespace"])


async def _receiver(at: Place) -> list[Finding]:
    """Does the receiver of a `headrace up` take connections?"""
    if at.receive is None:
        return []
    parts = urlsplit(at.receive)
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port)
    except (OSError, TimeoutError) as error:
        what = f"nobody takes events at {at.receive}: {error or 'no answer'}"
        do = "look at the log of headrace up for why receive does not start"
        return [Finding(Severity.PROBLEM, "receiver-away", at.receive, what, do)]
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return []


def _unreachable(at: Place, error: HeadraceError) -> Finding:
    text = str(error)
    if isinstance(error, ApiError) or "JetStream does not answer" in text or "did not answer" in text:
        return Finding(
            Severity.PROBLEM,
            "jetstream-off",
            "NATS",
            f"the server is there, JetStream is not: {text}",
            "enable JetStream in the server and for this account; one that switched itself off has no disk space left, "
            "or could not read its store: its log says so",
        )
    return Finding(
        Severity.PROBLEM,
        "nats-unreachable",
        "NATS",
        text,
        "from outside a cluster: kubectl -n nats port-forward svc/nats 4222, and --nats nats://127.0.0.1:4222; the "
        "credentials are in a Secret (NATS_CREDS_FILE, NATS_USER and NATS_PASSWORD, or NATS_TOKEN); inside, is the "
        f"address right that comes from {at.source}, and are the server's pods Ready?",
    )


def _forbidden(error: Refused) -> Finding:
    do = "use credentials that may publish to $JS.API.> and subscribe to _INBOX.>"
    return Finding(Severity.PROBLEM, "forbidden", "NATS", f"JetStream's API refuses: {error}", do)


def _item(each: Finding) -> dict[str, Any]:
    return {
        "severity": each.severity.name.lower(),
        "code": each.code,
        "where": each.where,
        "what": each.what,
        "do": each.do,
    }


def _told(found: list[Finding]) -> str:
    if not found:
        return "all is well: every Subscription gets its events\n"
    marks = {Severity.PROBLEM: "PROBLEM", Severity.RISK: "RISK", Severity.NOTE: "NOTE"}
    return "\n".join(
        f"{marks[each.severity]}  {plain(each.where)}  [{each.code}]\n  {plain(each.what)}\n  To do: {plain(each.do)}\n"
        for each in found
    )

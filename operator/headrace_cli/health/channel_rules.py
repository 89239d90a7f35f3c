"""The rules about one channel: its streams, its subscribers, the events that nobody sees. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headrace.core import subject_pattern
from headrace.core.channel import health, position
from headrace.core.plural import counted
from headrace_cli.health.facts import ChannelFacts, used
from headrace_cli.health.finding import Finding, Severity, note, problem, risk

FULL, NEARLY_FULL = 0.95, 0.8
NAMED = 5


def _stream_full(each: ChannelFacts) -> Iterator[Finding]:
    share, what = used(each.channel.info)
    config = each.channel.info["config"]
    if share < NEARLY_FULL:
        return
    if config.get("discard") == "new":
        yield Finding(
            Severity.PROBLEM if share >= FULL else Severity.RISK,
            "stream-full",
            f"stream {each.channel.stream} is {100 * share:.0f} % full ({what}), and refuses events when it is full "
            "(507)",
            f"raise {what} in the channel's spec.stream.config, or free room with `kn jetstream purge`; if a "
            "Subscription is far behind on an Interest or WorkQueue stream, mend that one first",
        )
    elif any(one.subscription.pending for one in each.subscriptions):
        yield risk(
            "stream-full",
            f"stream {each.channel.stream} is {100 * share:.0f} % full ({what}), and discards old events, also those "
            "that Subscriptions wait for",
            f"raise {what} in the channel's spec.stream.config, or mend the Subscription that is behind",
        )


def _aside(each: ChannelFacts) -> Iterator[Finding]:
    channel = each.channel
    if channel.origin == "peer":
        return
    if channel.aside is None:
        yield problem(
            "aside-missing",
            f"its aside stream {channel.aside_name} is missing: retries and parked events find no place",
            "reconcile the channel again: change an annotation, or restart the operator",
        )
        return
    share, what = used(channel.aside)
    room = int(channel.aside["config"].get("max_bytes", -1))
    tight = 0 < room < int(channel.aside["state"]["bytes"]) + health.LEAST_ROOM
    if share >= FULL or tight:
        yield problem(
            "aside-full",
            f"its aside stream is full ({what or 'maxBytes'}): what fails can be neither retried in time nor parked",
            "replay or discard parked events: `kn jetstream deadletter list` shows them",
        )


def _no_leader(each: ChannelFacts) -> Iterator[Finding]:
    for info in (each.channel.info, each.channel.aside or {}):
        cluster = info.get("cluster") or {}
        name = info.get("config", {}).get("name", "")
        replicas = cluster.get("replicas") or []
        away = [peer["name"] for peer in replicas if peer.get("offline") or not peer.get("current", True)]
        if cluster and not cluster.get("leader"):
            yield problem(
                "no-leader",
                f"stream {name} has no leader: nothing is stored or delivered (503)",
                "bring back the NATS servers that are away; a stream of one replica waits for its own server",
            )
        elif away:
            yield risk(
                "replica-away",
                f"stream {name} has replicas that are away or behind: {', '.join(away)}",
                "look after these NATS servers; without a majority the stream stops",
            )


def _nobody_listens(each: ChannelFacts) -> Iterator[Finding]:
    served = [one for one in each.subscriptions if one.subscription.state != "foreign"]
    if served or each.channel.origin in ("peer", "gone"):
        return
    state = each.channel.info["state"]
    kept = counted(state["messages"], "event waits", "events wait") if state["messages"] else "events go nowhere"
    if each.subscribers:
        yield problem(
            "no-consumer",
            f"the channel has {counted(each.subscribers, 'subscriber')}, and no consumer that serves any: {kept}",
            "its conditions, and status.subscribers, say why NATS has none: a limit of the server or the stream, or "
            "what is wrong with the entry; else look at the log of reconcile",
        )
    elif each.subscribers is None:
        yield problem(
            "no-subscription",
            f"no consumer serves the channel: {kept}",
            "if it has no Subscription (or Trigger), make one whose channel is this one; if it has one, the channel's "
            "conditions say why it has no consumer: `doctor --cluster` reads them",
        )
    else:
        yield problem(
            "no-subscription",
            f"the channel has no Subscription: {kept}",
            "make a Subscription (or a Trigger) whose channel is this one; if there is one, its reference names "
            "another channel, or the operator has not seen it: look at its conditions",
        )


def _unseen(each: ChannelFacts) -> Iterator[Finding]:
    """Finds events on a subject that no consumer reads."""
    patterns = [pattern for one in each.subscriptions for pattern in subject_pattern.filters(one.subscription.config)]
    if not patterns:
        return
    unseen = subject_pattern.unseen(each.subjects, patterns)
    own = {each.channel.subject, subject_pattern.stored(each.channel.subject, each.channel.transform)}
    lost = {subject: unseen.pop(subject) for subject in own & unseen.keys() if subject is not None}
    if lost:
        yield problem(
            "own-events-unseen",
            f"{counted(sum(lost.values()), 'event')} of the channel itself, on {', '.join(lost)}, that no Subscription "
            "sees",
            "give each Subscription's consumer that subject: mend filterSubject in the channel's "
            "consumerConfigTemplate, or reconcile the channel again if its stream's subject_transform was changed",
        )
    if unseen:
        named = ", ".join(sorted(unseen)[:NAMED])
        yield note(
            "irrelevant-events",
            f"{counted(sum(unseen.values()), 'event')} on subjects that no Subscription sees: {named}",
            "name them in additionalSubjects of the channel's stream if they are to be delivered, or in the "
            "filterSubjects of consumerConfigTemplate where it has any; else mend who publishes there, "
            f"`kn jetstream purge {each.channel.ref} --subject …` removes them",
        )


def _parked(each: ChannelFacts) -> Iterator[Finding]:
    if each.channel.origin == "gone":
        yield note(
            "channel-gone",
            f"the channel was deleted, and its {counted(each.parked, 'parked event is', 'parked events are')} kept",
            f"`kn jetstream deadletter replay {each.channel.ref} --to-channel …` or `deadletter discard`, then "
            f"`kn jetstream channel delete {each.channel.ref}`",
        )
    elif each.parked:
        yield risk(
            "parked",
            f"{counted(each.parked, 'parked event')} that could be delivered nowhere",
            f"`kn jetstream deadletter list {each.channel.ref} --summary` says why; mend the subscriber, then "
            f"`kn jetstream deadletter replay {each.channel.ref} --all`",
        )


def _unwritten(each: ChannelFacts) -> Iterator[Finding]:
    config = each.channel.info["config"]
    if config.get("persist_mode") == "async":
        how = "it acknowledges events before it writes them (persistMode: Async): the last ones go with a crash of NATS"
    elif config.get("storage") == "memory":
        how = "its events are in memory only, and go with the servers that hold them"
    else:
        return
    yield note("acknowledged-unwritten", how, "if they must not be lost, make a new channel: this one can't be changed")


def _position_ahead(each: ChannelFacts) -> Iterator[Finding]:
    """Finds a consumer that remembers more than its stream: servers that lost power together can leave one."""
    known = {one.subscription.consumer: one.subscription for one in each.subscriptions}
    infos = [one.info for one in known.values()]
    for consumer, events in position.ahead({"state": {"last_seq": each.last}}, infos).items():
        ref = known[consumer].ref
        yield problem(
            "position-ahead",
            f"Subscription {ref} stands ahead of its stream, which ends at {each.last}: the next "
            f"{counted(events, 'event')} will not be handed to it, since NATS lost power without sync_interval: always",
            f"NATS 2.14 and later puts it back within a minute, if its deliverPolicy allows it; else `kn jetstream "
            f"subscription reset {ref} --to-time …`, with the time of that loss (docs/power.md)",
        )


OF_CHANNELS: tuple[Callable[[ChannelFacts], Iterator[Finding]], ...] = (
    _stream_full,
    _aside,
    _no_leader,
    _nobody_listens,
    _unseen,
    _parked,
    _unwritten,
    _position_ahead,
)

"""The channels that a NATS account holds: the marks on their streams say so.

The Go channel's streams have no mark; the grammar of their names and subjects says what they are. Every question here
raises Unavailable when NATS does not answer.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from headrace.core import names
from headrace.core.errors import HeadraceError, InvalidSpec, Refused
from headrace.core.nats.stream import CHANNEL_KEY, CLUSTER_KEY, NAMESPACE_KEY, ROLE_KEY, UID_KEY, Role, captures
from headrace.io.jetstream.api import JetStreamApi
from headrace_cli.catalog.names import NamespacedName

Info = dict[str, Any]
ASIDE = names.aside("")


@dataclass(frozen=True, slots=True)
class CatalogChannel:
    """One channel as NATS knows it.

    Attributes:
        info: STREAM.INFO of its stream, with configuration and state.
        aside: STREAM.INFO of its aside stream; None without one.
        origin: `headrace`; `adopted`: it is to use a stream that existed; `peer`: the Go channel's; `gone`: only its
            aside stream is left, since events are parked there; `unmade`: it has no stream yet.
        uid, cluster: those of the manifest, read from the stream's mark; empty without a mark.
    """

    namespace: str
    name: str
    info: Info
    aside: Info | None
    origin: str
    uid: str = ""
    cluster: str = ""

    @property
    def stream(self) -> str:
        return str(self.info["config"]["name"])

    @property
    def aside_name(self) -> str:
        return names.aside(self.stream)

    @property
    def names(self) -> names.Channel:
        return names.channel(self.namespace, self.name)

    @property
    def subject(self) -> str:
        """Where its events are published."""
        return self.names.subject

    @property
    def transform(self) -> Info | None:
        """The transform by which its stream stores messages under other subjects."""
        found: Info | None = self.info["config"].get("subject_transform")
        return found

    @property
    def ref(self) -> NamespacedName:
        return NamespacedName(self.namespace, self.name)


async def channels(api: JetStreamApi) -> list[CatalogChannel]:
    """All channels of the account, by namespace and name."""
    streams = {str(info["config"]["name"]): info async for info in api.streams()}
    found = [channel for info in streams.values() if (channel := _channel(info, streams)) is not None]
    return sorted(found, key=lambda channel: (channel.namespace, channel.name))


async def channel(api: JetStreamApi, wanted: NamespacedName) -> CatalogChannel:
    """One channel.

    Raises:
        Refused: 404, there is no such channel; the message names those that exist. 409, several streams bear its mark.
    """
    known = await channels(api)
    found = [each for each in known if each.ref == wanted]
    if len(found) > 1:
        # A copy of a stream has the same mark, but only one of them gets events: subjects can't overlap.
        found = [each for each in found if captures(each.info["config"], each.subject)] or found
    if len(found) > 1:
        streams = ", ".join(each.stream for each in found)
        cure = "take the mark out of the metadata of those that are copies"
        raise Refused(f"{wanted} is said to be channel of several streams, {streams}: {cure}", status=409)
    if found:
        return found[0]
    others = ", ".join(str(each.ref) for each in known[:10]) or "none at all"
    raise Refused(f"there is no channel {wanted}: this NATS has {others}", status=404)


async def forget_stages(api: JetStreamApi, aside: str, stages: str) -> None:
    """Forget stage records of deliveries that are over: they would count as events that wait.

    Args:
        stages: the subjects of the records, as `headrace.core.names` has them.
    """
    for subjects in (stages, f"{stages}.stuck"):
        with suppress(HeadraceError):
            await api.find(f"STREAM.PURGE.{aside}", {"filter": subjects})


def unmade(ref: NamespacedName) -> CatalogChannel:
    """A channel that a manifest asks for, but whose stream could not be made."""
    return CatalogChannel(ref.namespace, ref.name, _nothing(names.stream(ref.namespace, ref.name)), None, "unmade")


def _channel(info: Info, streams: dict[str, Info]) -> CatalogChannel | None:
    config = info["config"]
    name, mark = str(config["name"]), config.get("metadata") or {}
    role = mark.get(ROLE_KEY)
    if role == Role.CHANNEL:
        return _marked(mark, info, streams.get(names.aside(name)), "headrace")
    if role == Role.ASIDE:
        # A stream that was adopted keeps its own metadata; our mark is on its aside stream.
        main = streams.get(name.removesuffix(ASIDE))
        if main is None:
            return _marked(mark, _nothing(name.removesuffix(ASIDE)), info, "gone")
        if ROLE_KEY in (main["config"].get("metadata") or {}):
            return None
        return _marked(mark, main, info, "adopted")
    plain = names.parse_stream(name)
    if plain is None or names.aside(name) in streams or not captures(config, names.channel(*plain).subject):
        return None
    return CatalogChannel(*plain, info, None, "peer")


def _marked(mark: dict[str, str], info: Info, aside: Info | None, origin: str) -> CatalogChannel | None:
    namespace, name = mark.get(NAMESPACE_KEY, ""), mark.get(CHANNEL_KEY, "")
    try:
        names.channel(namespace, name)
    except InvalidSpec:
        return None
    return CatalogChannel(namespace, name, info, aside, origin, mark.get(UID_KEY, ""), mark.get(CLUSTER_KEY, ""))


def _nothing(stream: str) -> Info:
    """STREAM.INFO as it would be for an empty stream."""
    state = {"messages": 0, "bytes": 0, "first_seq": 0, "last_seq": 0, "consumer_count": 0}
    return {"config": {"name": stream}, "state": state}

"""Who is let into the NATS of a channel: our own `reconcile`, or that of its functions, which then is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.core import children, connection_spec, manifest
from headrace.core.channel_defaults import Defaults
from headrace.core.children import Access, Apart, Cluster
from headrace.core.conditions import Condition
from headrace.core.errors import InvalidSpec, Refused, Unavailable
from headrace.core.hook import HookRequest
from headrace.core.manifest import Manifest
from headrace.core.named import Named
from headrace.core.settings import ReconcileSettings
from headrace.reconcile.ports import Administration, Around

SETTINGS = "NatsSettingsRead"
"""The condition that tells of a broken edit, while the last good one counts, and of Secrets that are missing."""


@dataclass(frozen=True, slots=True)
class Seat:
    """Who is let into the NATS of one channel.

    Attributes:
        connection: whose credentials these are, for people; empty for the installation's.
        access: of the channel's functions.
        named: what the ConfigMap of their namespace names.
    """

    api: Administration
    access: Access
    named: Named
    apart: Apart | None = None
    connection: str = ""


class NotThere(Exception):
    """The `reconcile` that is let into a channel's NATS does not answer; it may be starting."""

    def __init__(self, words: str, seat: Seat) -> None:
        super().__init__(words)
        self.seat = seat


async def find(request: HookRequest, own: Administration, settings: ReconcileSettings, around: Around) -> Seat:
    """Who is let in.

    Raises:
        NotThere: it is another `reconcile`, and that does not answer.
    """
    secret = connection_spec.own_secret(request.parent)
    namespace = str(request.parent["metadata"]["namespace"])
    usual = children.with_own(children.by_settings(settings, around.digests), secret)
    cluster, channel = cluster_of(request), _parsed(request.parent)
    if channel is None or around.elsewhere is None or children.apart(channel, settings, usual, cluster) is None:
        return Seat(own, usual.with_named(around.named.secrets), around.named)
    config_map = (around.defaults or Defaults()).config_name(namespace)
    access = children.with_own(children.by_settings(settings, around.digests, config_map=config_map), secret)
    connection = f"Secret {secret}" if secret else f"namespace {namespace}"
    kept = access.with_named(children.named_secrets(request.children))
    apart = children.apart(channel, settings, kept, cluster)
    assert apart is not None, "it is by the usual ConfigMap, too"
    api = around.elsewhere(apart.url)
    try:
        named = await api.named()
    except (Refused, Unavailable) as error:
        raise NotThere(str(error), Seat(api, kept, Named(), apart, connection)) from error
    access = access.with_named(named.secrets)
    return Seat(api, access, named, children.apart(channel, settings, access, cluster), connection)


def cluster_of(request: HookRequest) -> Cluster:
    return Cluster(request.apis, request.children, stock=request.stock)


def settings_condition(seat: Seat) -> Condition | None:
    named = seat.named
    if named.problem:
        return Condition(SETTINGS, False, "SettingsBroken", named.problem, informative=True)
    # A channel's own Secret may stand for all that a ConfigMap names.
    if named.missing and not seat.access.own:
        missing = ", ".join(f"{one.secret} (key {one.key})" for one in named.missing)
        where = "the namespace of its pods" if seat.apart is not None else "the pods of reconcile and of the operator"
        advice = "make it there" if seat.apart is not None else "mount it there, as docs/install.md says"
        message = f"ConfigMap {named.config_map} names what is not mounted in {where}: Secret {missing}: {advice}"
        return Condition(SETTINGS, False, "SecretMissing", message, informative=True)
    return None


def _parsed(parent: dict[str, Any]) -> Manifest | None:
    """The channel, or the part of it that says where it is; None for one that is nowhere."""
    try:
        return manifest.parse(parent)
    except InvalidSpec:
        pass
    try:
        return Manifest(metadata=manifest.parse_identity(parent).metadata)
    except InvalidSpec:
        return None

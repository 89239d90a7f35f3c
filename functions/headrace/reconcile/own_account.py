"""Finds the NATS account of a channel, and the `reconcile` that has the credentials for it.

That is our own `reconcile`, or the one among the channel's own functions: we ask that over HTTP (ADR 030).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from headrace.core.channel import children, related
from headrace.core.channel.children import Apart, Cluster, NatsMounts, encryption
from headrace.core.channel.hook import HookRequest
from headrace.core.conditions import Condition
from headrace.core.errors import InvalidSpec, Refused, Unavailable
from headrace.core.installation import channel_defaults, config_choice
from headrace.core.installation.channel_defaults import Defaults
from headrace.core.installation.reconcile_settings import ReconcileSettings
from headrace.core.installation.secret_names import SecretNames
from headrace.core.manifest import connection_spec, manifest
from headrace.core.manifest.manifest import Manifest
from headrace.reconcile.ports import Administration, Around

SETTINGS = "NatsSettingsRead"
"""The condition that reports a broken edit of the settings (the last good one still counts), or missing Secrets."""


@dataclass(frozen=True, slots=True)
class Account:
    """The way to the NATS account of one channel.

    Attributes:
        api: makes streams and consumers there.
        access: the mounts that bring the channel's functions their credentials.
        named: the Secrets that the ConfigMap for these functions names.
        apart: the set of functions with credentials of its own; None for the installation's.
        connection: the owner of the credentials, for people; empty for the installation's.
    """

    api: Administration
    access: NatsMounts
    named: SecretNames
    apart: Apart | None = None
    connection: str = ""


class AccountUnreachable(Exception):
    """The `reconcile` that has the credentials for a channel's NATS account does not answer; it may be starting."""

    def __init__(self, words: str, account: Account) -> None:
        super().__init__(words)
        self.account = account


async def find(request: HookRequest, own: Administration, settings: ReconcileSettings, around: Around) -> Account:
    """The account of the channel in a request.

    Raises:
        AccountUnreachable: another `reconcile` has the credentials for it, and does not answer.
    """
    secret = connection_spec.own_secret(request.parent)
    namespace = str(request.parent["metadata"]["namespace"])
    chosen, ours = _chosen(around, settings)
    keys = around.digests, around.delivery_keys
    usual = children.with_own(children.by_settings(settings, *keys, config_map=chosen), secret)
    cluster, channel = cluster_of(request, settings, around), _parsed(request.parent)
    if channel is None or around.elsewhere is None or children.apart(channel, settings, usual, cluster) is None:
        return Account(own, usual.with_named(around.named.secrets), ours)
    config_map = (around.defaults or Defaults()).config_name(namespace)
    access = children.with_own(children.by_settings(settings, *keys, config_map=config_map), secret)
    connection = f"Secret {secret}" if secret else f"namespace {namespace}"
    kept = access.with_named(children.named_secrets(request.children))
    apart = children.apart(channel, settings, kept, cluster)
    assert apart is not None, "the usual ConfigMap gave one, just above"
    api = around.elsewhere(apart.url)
    try:
        named = await api.named()
    except (Refused, Unavailable) as error:
        raise AccountUnreachable(str(error), Account(api, kept, SecretNames(), apart, connection)) from error
    access = access.with_named(named.secrets)
    return Account(api, access, named, children.apart(channel, settings, access, cluster), connection)


def _chosen(around: Around, settings: ReconcileSettings) -> tuple[str, SecretNames]:
    """The installation's ConfigMap by `clusterDefault`, where it may choose; and our `SecretNames` with any problem."""
    chosen, named = (around.defaults or Defaults()).config_names.get("", ""), settings.nats_config_map
    if not chosen or named is None:
        return "", around.named
    if chosen in config_choice.order(named, ""):
        return chosen, around.named
    return "", replace(around.named, problem=around.named.problem or config_choice.unmounted(chosen))


def cluster_of(request: HookRequest, settings: ReconcileSettings, around: Around) -> Cluster:
    """The facts about the cluster in a request, and what the administrator lets the channel's namespace have."""
    namespace = str(request.parent["metadata"]["namespace"])
    return Cluster(
        request.apis,
        request.children,
        stock=request.stock,
        shared=request.shared,
        watched=request.watched,
        zero=related.may_begin_at_zero(request.related, settings.zero_initial_scale, request.unseen),
        worked=children.worked(request.parent.get("status") or {}),
        guests=request.guests,
        bounds=around.tenants.bounds(namespace),
        encryption=encryption.of(
            request.related, request.unseen, request.apis or (), settings, request.parent.get("status") or {}
        ),
        given=children.template_of(_parsed(channel_defaults.alone(around.defaults or Defaults(), namespace))),
    )


def settings_condition(account: Account) -> Condition | None:
    named = account.named
    if named.problem:
        return Condition(SETTINGS, False, "SettingsBroken", named.problem, informative=True)
    # A channel's own Secret may stand for all that a ConfigMap names.
    if named.missing and not account.access.own:
        missing = ", ".join(f"{one.secret} (key {one.key})" for one in named.missing)
        where = (
            "the namespace of its pods" if account.apart is not None else "the pods of reconcile and of the operator"
        )
        advice = "make it there" if account.apart is not None else "mount it there, as docs/install.md says"
        message = f"ConfigMap {named.config_map} names what is not mounted in {where}: Secret {missing}: {advice}"
        return Condition(SETTINGS, False, "SecretMissing", message, informative=True)
    return None


def _parsed(parent: dict[str, Any]) -> Manifest | None:
    """The channel, or only its identity when its spec is invalid; None when that can't be read either."""
    try:
        return manifest.parse(parent)
    except InvalidSpec:
        pass
    try:
        return Manifest(metadata=manifest.parse_identity(parent).metadata)
    except InvalidSpec:
        return None

"""Whose tokens a channel's subscribers may be sent with, and who can't be given any.

A token is made for a ServiceAccount only because a live Subscription of this very channel names it in its status, where
Knative's controller writes the account that it has made for it. An entry of `spec.subscribers` proves nothing, since
whoever may write a channel may write its entries; nor does a consumer's metadata. Pure; ADR 065.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.core.channel.lease_places import SenderIdentity
from headrace.core.channel.truth import Truth
from headrace.core.delivery.subscriber import Subscriber, SubscriberState
from headrace.core.errors import InvalidSpec
from headrace.core.quoting import quoted

NO_MAKER = (
    "tokens are made by Headrace's own operator in a cluster, and neither a stock Metacontroller nor headrace up makes "
    "any: run the operator, or take the audience out"
)
ELSEWHERE = (
    "OIDCNotPossible: its addresses ask for tokens, which come with the operator's leases, and the channel's stream is "
    "in a NATS account where the operator opens none: use the installation's account, or take the audience out"
)


def account(subscriber: Subscriber, wanted: str, truth: Truth, field: str) -> str:
    """The account whose tokens a subscriber with audiences gets.

    Args:
        wanted: by its entry.
        field: of the entry.

    Raises:
        InvalidSpec: no Subscription of the channel names it, or nobody can make its tokens.
    """
    if not truth.tokens:
        raise InvalidSpec(f"OIDCNotPossible: {field} has an audience, and {NO_MAKER}", field=field)
    path, asks = f"{field}.auth.serviceAccountName", f"it has the audience {quoted(subscriber.audiences[0])}"
    if not wanted:
        advice = "set authentication-oidc: enabled in Knative's config-features, or take the audience out"
        raise InvalidSpec(f"OIDCIdentityMissing: {path} is not set, and {asks}: {advice}", field=path)
    named = truth.account_of(subscriber)
    if named != wanted:
        says = f"names {quoted(named)}" if named else "of this channel with its uid names it"
        whose = "its Subscription" if named else "no Subscription"
        advice = "Knative's Subscription controller makes the account, and writes its name to both"
        raise InvalidSpec(f"OIDCIdentityUnknown: {path} is {quoted(wanted)}, but {whose} {says}: {advice}", field=path)
    return wanted


def proved(served: Iterable[tuple[str, Subscriber]], truth: Truth) -> dict[str, SenderIdentity]:
    """The identities of those consumers that need one, by durable name."""
    return {
        durable: SenderIdentity(one.subscription_namespace or one.namespace, one.service_account, one.audiences)
        for durable, one in served
        if one.audiences
        and one.state is SubscriberState.READY
        and one.service_account
        and truth.account_of(one) == one.service_account
    }

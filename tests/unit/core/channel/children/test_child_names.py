"""No two functions share a name, whatever channels and Subscriptions are called, and every name is legal."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core import names
from headrace.core.channel.children import child_names
from headrace.core.installation.function_bounds import FunctionBounds
from infra.generate import install
from tests.support.functions.channels import entry
from tests.support.functions.children import wanted
from tests.support.kube.install import INFRA, SYSTEM, in_file

# DNS-1035, as Services and Knative Services have to be.
LEGAL = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?")
# What Knative makes of a name: the revision, and its Deployment and Services.
KNATIVE_ADDS = len("-00001-deployment")

labels = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
subdomains = st.one_of(
    labels,
    st.sampled_from(["a", "a" * 253, "7-up", "a--b", "a.b.c", "0", "a-b", "a.b", "plain", "plain-a", "a" * 63]),
    st.lists(labels, min_size=1, max_size=3).map(".".join),
)
subscribers = st.tuples(labels, subdomains, st.uuids().map(str), subdomains)
"""Namespace and name of a channel, uid and name of a Subscription."""


def both(identity: tuple[str, str, str, str]) -> list[str]:
    namespace, channel, uid, name = identity
    told_apart = (namespace, channel, names.durable(uid))
    return [child_names.own("forward", told_apart, name, plain=plain) for plain in (False, True)]


@given(subscribers)
def test_names_are_legal_and_leave_room_for_what_knative_adds(identity: tuple[str, str, str, str]) -> None:
    knative, plain = both(identity)

    assert LEGAL.fullmatch(knative)
    assert LEGAL.fullmatch(plain)
    assert len(knative) + KNATIVE_ADDS <= 63
    assert len(plain) <= 63


@given(st.lists(subscribers, min_size=2, max_size=6, unique_by=lambda one: (one[0], one[1], names.durable(one[2]))))
def test_no_two_subscribers_share_a_function(identities: list[tuple[str, str, str, str]]) -> None:
    made = [name for identity in identities for name in both(identity)]

    assert len(set(made)) == len(made)


@given(labels, labels, labels)
def test_where_one_name_ends_and_the_next_begins_counts(a: str, b: str, c: str) -> None:
    assert child_names.own("forward", (a + b, c), "x", plain=False) != child_names.own(
        "forward", (a, b + c), "x", plain=False
    )


@given(subscribers)
def test_the_functions_of_a_channel_and_of_a_scope_are_never_the_same(identity: tuple[str, str, str, str]) -> None:
    shared = {child_names.shared(target, plain=plain) for target in ("receive", "forward") for plain in (True, False)}

    assert len(shared) == 4
    assert not shared & set(both(identity))


@settings(max_examples=30)  # whole channels
@given(st.lists(st.tuples(labels, subdomains), min_size=2, max_size=4, unique=True))
def test_no_two_channels_share_what_is_one_channels_own(channels: list[tuple[str, str]]) -> None:
    template = {"resources": {"limits": {"cpu": 1}}}
    made = [
        f"{one['kind']}.{one['apiVersion']} {one['metadata']['namespace']}/{one['metadata']['name']}"
        for namespace, name in channels
        for one in wanted(entry(), namespace=namespace, name=name, deploymentSpecTemplate=template).objects
    ]

    assert len(set(made)) == len(made)


@settings(max_examples=30)
@given(labels, subdomains, subdomains)
def test_every_object_of_a_channel_has_a_legal_name(namespace: str, channel: str, subscription: str) -> None:
    for one in wanted(entry(name=subscription), namespace=namespace, name=channel).objects:
        assert LEGAL.fullmatch(one["metadata"]["name"])
        assert len(one["metadata"]["name"]) <= 63
        for value in one["metadata"]["labels"].values():
            assert len(value) <= 63


def of_the_installation() -> set[tuple[str, str]]:
    """Kind and name of every object in the system namespace that an installation brings or is given."""
    found = {("Secret", "headrace-token"), ("Secret", "headrace-nats")}
    for file in (install.INSTALL, install.PLAIN, INFRA / "components/kind/receive.yaml"):
        found |= {(one["kind"], one["metadata"]["name"]) for one in in_file(file)}
    return found


INSTALLED = of_the_installation()
system_or_not = st.one_of(labels, st.just(SYSTEM))
forged = st.one_of(subdomains, st.sampled_from(sorted({name for _, name in INSTALLED})))


@settings(max_examples=60, deadline=None)
@given(system_or_not, forged, forged, st.sampled_from(["knative", "deployment"]), st.sampled_from([0, 100]))
def test_no_child_is_called_like_an_object_of_the_installation(
    namespace: str, channel: str, subscription: str, runtime: str, most: int
) -> None:
    bounds, template = FunctionBounds(functions=most), {"resources": {"limits": {"cpu": 1}}}
    settings = {"runtime": runtime, "host_urls": True}
    for wishes in ({}, {"deploymentSpecTemplate": template}):
        functions = wanted(
            entry(name=subscription), namespace=namespace, name=channel, bounds=bounds, settings=settings, **wishes
        )
        for one in functions.objects:
            there = one["metadata"]["namespace"] == SYSTEM
            assert not there or (one["kind"], one["metadata"]["name"]) not in INSTALLED

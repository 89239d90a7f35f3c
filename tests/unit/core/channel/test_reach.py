"""Names that a namespace may use: the rule by tables, and that none passes which can reach another's subject."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core import names
from headrace.core.channel.reach import Reach
from headrace.core.channel.stream_config import place
from headrace.core.installation.tenants import Tenant
from headrace.core.manifest.manifest import Metadata
from headrace.core.subject_pattern import overlap


def reach(namespace: str = "shop", name: str = "orders", **opened: list[str]) -> Reach:
    entries = (Tenant.model_validate({"namespaces": ["*"], **opened}),) if opened else ()
    return Reach(place(Metadata(name=name, namespace=namespace), "", "default"), entries)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("shop.seen", ""),
        ("shop.seen.*.>", "it can mean a subject of a channel, *.*._knative_aside.>"),
        ("shop.seen.*", "it can mean a subject of a channel, *.*._knative"),
        ("shop.seen.by.>", ""),
        ("shop.orders.*", ""),
        ("shop.orders.seen.>", ""),
        pytest.param("shop.orders.>", "it can mean a subject of a channel, *.*._knative", id="its own aside, too"),
        ("shop.orders._knative_aside.stage.a.1", "it can mean a subject of a channel, *.*._knative_aside.>"),
        ("shop", "only subjects below 'shop.>' are its own"),
        ("shop.>", "it can mean a subject of a channel, *.*._knative"),
        ("shop.*._knative_aside.parked.>", "it can mean a subject of a channel, *.*._knative_aside.>"),
        ("SHOP.seen", "only subjects below 'shop.>' are its own"),
        ("shopping.seen", "only subjects below 'shop.>' are its own"),
        ("$SYS.ACCOUNT.>", "subjects that begin with $ are the server's"),
        ("_INBOX.>", "subjects that begin with _ are for answers"),
        ("headrace.wake.*", "subjects below headrace are Headrace's own"),
        ("*.seen", "it means subjects of the server, and of all namespaces"),
        (">", "it means subjects of the server, and of all namespaces"),
    ],
)
def test_subjects_below_the_namespace_are_its_own(pattern: str, why: str):
    assert reach().of_subject(pattern, pattern) == why


@pytest.mark.parametrize(
    ("opened", "pattern", "allowed"),
    [
        ("legacy.>", "legacy.orders", True),
        ("legacy.>", "legacy.orders.eu.>", True),
        pytest.param("legacy.>", "legacy.orders.*", False, id="a namespace may have that name"),
        ("legacy.orders.*", "legacy.orders.*", True),
        ("LEGACY.>", "LEGACY.orders.*", True),
        ("legacy.orders", "legacy.>", False),
        ("$KV.>", "$KV.a", False),
        ("$KV.a", "$KV.a", True),
        (">", "legacy.orders", True),
        (">", ">", False),
        ("*.later._knative", "*.later._knative", False),
    ],
)
def test_the_list_opens_word_by_word_and_by_wildcards_what_is_nobodys(opened: str, pattern: str, allowed: bool):
    assert (reach(subjects=[opened]).of_subject(pattern, pattern) == "") is allowed


TOKENS = st.sampled_from(
    ["shop", "bill", "orders", "new", "_knative", "_knative_aside", "$JS", "_INBOX", "*", "headrace"]
)
OTHERS = [
    "bill.new._knative",
    "shop.new._knative",
    "shop.new._knative_aside.stage.a.1",
    "$JS.API.STREAM.DELETE.X",
    "_INBOX_forward.a",
    "headrace.wake.X",
]


@given(st.lists(TOKENS, min_size=1, max_size=4), st.booleans(), st.sampled_from(["", "bill.>", ">", "*.*._knative"]))
def test_what_passes_can_mean_nothing_of_anothers(tokens: list[str], rest: bool, opened: str):
    pattern = ".".join([*tokens, ">"] if rest else tokens)
    known = reach(subjects=[opened]) if opened and opened != pattern else reach()
    if not known.of_subject(pattern, pattern):
        assert [one for one in OTHERS if overlap(pattern, one)] == []


@pytest.mark.parametrize(
    ("namespace", "stream", "allowed"),
    [
        ("shop", "KN_SHOP__ORDERS", True),
        ("shop", "KN_SHOP__LATER", True),
        ("shop", "KN_SHOP__ORDERS_aside", False),
        ("shop", "KN_SHOPPING__ORDERS", False),
        ("shop", names.stream("shop--a", "orders"), False),
        ("shop--a", "KN_SHOP__A__ORDERS", False),
        ("shop--a", names.stream("shop--a", "orders"), True),
        ("shop-a", "KN_SHOP_A__ORDERS", True),
        ("shop", "ORDERS", False),
        ("shop", "KV_SHOP", False),
        ("shop", "$MQTT_msgs", False),
    ],
)
def test_streams_by_the_namespaces_grammar_are_its_own(namespace: str, stream: str, allowed: bool):
    assert (reach(namespace).of_stream(stream) == "") is allowed


@pytest.mark.parametrize(
    ("opened", "stream", "allowed"),
    [
        ("ORD*", "ORDERS", True),
        ("ORDERS", "ORDERS2", False),
        ("*", "KV_payroll", False),
        ("KV_*", "KV_payroll", False),
        ("KV_payroll", "KV_payroll", True),
        ("*", "OBJ_files", False),
        ("KN_*", "KN_BILL__NEW", False),
        ("KN_BILL__NEW", "KN_BILL__NEW", True),
        ("*", "ORDERS_aside", False),
        ("*", "$MQTT_msgs", False),
    ],
)
def test_the_list_opens_buckets_and_streams_of_channels_word_by_word_only(opened: str, stream: str, allowed: bool):
    assert (reach(streams=[opened]).of_stream(stream) == "") is allowed


NAMES = ["a", "b", "a-b", "a--b", "a.b", "x" * 60, "a-kn-jsm-channel", "a-aside", "a-x0123456789abcdef"]


def test_no_channel_has_a_name_that_another_may_take():
    places = [(ns, name) for ns, name in product([each for each in NAMES if "." not in each], NAMES)]
    for (namespace, name), (theirs, other) in product(places, places):
        if (namespace, name) != (theirs, other):
            own, another = reach(namespace, name), names.channel(theirs, other)
            assert own.of_subject(another.subject, another.subject)
            assert names.channel(namespace, name).subject != another.subject
            assert theirs == namespace or own.of_stream(names.stream(theirs, other))

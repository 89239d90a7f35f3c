"""Names: every channel has its own, from a manifest, a Host header and a path alike."""

from __future__ import annotations

import re
from hashlib import md5

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from headrace.core.errors import InvalidSpec
from headrace.core.names import (
    Channel,
    aside,
    channel,
    channel_of_host,
    channel_of_path,
    durable,
    host,
    is_plain,
    parse_stream,
    path,
    stream,
    wake_subject,
)

HEX = "0123456789abcdef0123456789abcdef"
LONG = "a-very-long-name-for-a-channel-that-goes-on-and-on"  # 50 characters
SHORTENED = "a-very-long-named54881c380c317454d2cd37237ae0012"

label = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
long_label = st.from_regex(r"[ab]([ab-]{40,61}[ab])?", fullmatch=True)
look_alike = st.from_regex(r"[ab][ab-]{15}[0-9a-f]{31}[0-9a-f]", fullmatch=True)
tight = st.from_regex(r"[ab]([ab-]{0,3}[ab])?", fullmatch=True)
namespaces = st.one_of(tight, label, long_label)
names = st.one_of(
    tight,
    label,
    long_label,
    look_alike,
    st.lists(tight | label, min_size=2, max_size=4).map(".".join),
    st.lists(long_label, min_size=2, max_size=3).map(".".join),
    tight.map("{}-kn-jsm-channel".format),
)
channels = st.tuples(namespaces, names)


def as_kmeta_child_name(name: str) -> str:
    """What knative.dev/pkg's kmeta.ChildName does for our suffix, which leaves 48 characters."""
    head = name if len(name) <= 48 else name[:16] + md5(name.encode()).hexdigest()
    return f"{head}-kn-jsm-channel"


# The grammar, by example


def test_a_plain_channel_has_the_names_of_the_go_channel():
    assert channel("shop", "my-orders") == Channel("shop", "my-orders-kn-jsm-channel")
    assert channel("shop", "my-orders").subject == "shop.my-orders._knative"
    assert stream("shop", "my-orders") == "KN_SHOP__MY_ORDERS"
    assert host("shop", "my-orders") == "my-orders-kn-jsm-channel.shop.svc.cluster.local"
    assert host("shop", "my-orders", "example.org") == "my-orders-kn-jsm-channel.shop.svc.example.org"
    assert path("shop", "my-orders") == "/shop/my-orders"


def test_what_lies_aside_has_its_own_subjects():
    orders = channel("shop", "orders")
    assert orders.aside_subjects == "shop.orders._knative_aside.>"
    assert orders.stage_subject("KN_SUB_1", 7) == "shop.orders._knative_aside.stage.KN_SUB_1.7"
    assert orders.parked_subject("KN_SUB_1", 7, 99) == "shop.orders._knative_aside.parked.KN_SUB_1.7.99"
    assert aside("KN_SHOP__ORDERS") == "KN_SHOP__ORDERS_aside"
    assert wake_subject("KN_SHOP__ORDERS") == "headrace.wake.KN_SHOP__ORDERS"


OTHERS = {
    ("shop", "a--b"): ("shop.a--b-kn-jsm-channel._knative", "KN_SHOP__A__B_x1eb4d9756873cc03"),
    ("a--b", "c"): ("a--b.c-kn-jsm-channel._knative", "KN_A__B__C_x135b9540fde8332a"),
    ("shop", "v1.orders"): (
        "shop.v1-orders-------68fc0af545f133e56599037278ef4f07-kn-jsm-channel._knative",
        "KN_SHOP__V1_ORDERS_x1013a5372490f1f6",
    ),
    ("shop", LONG): (
        f"shop.{SHORTENED}-kn-jsm-channel._knative",
        "KN_SHOP__A_VERY_LONG_NAME_FOR_A_CHANNEL_THAT_GOES_ON_AND_ON_x1046b8031c2d78d1",
    ),
}


@pytest.mark.parametrize("other", OTHERS)
def test_any_other_channel_has_names_of_its_own(other):
    assert (channel(*other).subject, stream(*other)) == OTHERS[other]


@pytest.mark.parametrize("name", [LONG, "x" * 48, "x" * 49, "x" * 63, "orders"])
def test_names_without_dots_are_shortened_as_knative_does(name):
    assert channel("shop", name).label == as_kmeta_child_name(name)


def test_a_name_that_looks_shortened_is_shortened_too():
    name = f"sixteen-letters-{HEX}"
    assert channel("shop", name).label == f"sixteen-letters-{md5(name.encode()).hexdigest()}-kn-jsm-channel"
    assert not is_plain("shop", name)


@pytest.mark.parametrize(
    ("namespace", "name", "plain"),
    [
        pytest.param("shop", "orders", True, id="ordinary"),
        pytest.param("shop", "x" * 48, True, id="as long as fits"),
        pytest.param("shop", f"orders-{HEX}", True, id="a hash behind a short name"),
        pytest.param("shop", "x" * 49, False, id="too long"),
        pytest.param("shop", "a.b", False, id="dotted"),
        pytest.param("shop", "a--b", False, id="two dashes in the name"),
        pytest.param("a--b", "orders", False, id="two dashes in the namespace"),
    ],
)
def test_which_channels_are_plain(namespace, name, plain):
    assert is_plain(namespace, name) is plain


# Hosts and paths


@pytest.mark.parametrize(
    "said",
    [
        "orders-kn-jsm-channel.shop.svc",
        "orders-kn-jsm-channel.shop.svc.cluster.local",
        "orders-kn-jsm-channel.shop.svc.cluster.local:8080",
        "Orders-KN-jsm-channel.SHOP.svc.Cluster.LOCAL",
    ],
)
def test_a_host_leads_to_its_channel(said):
    assert channel_of_host(said) == channel("shop", "orders")


def test_the_domain_is_that_of_the_cluster():
    assert channel_of_host("orders-kn-jsm-channel.shop.svc.k8s.example:80", "k8s.example") == channel("shop", "orders")
    assert channel_of_host("orders-kn-jsm-channel.shop.svc", "k8s.example") == channel("shop", "orders")
    assert channel_of_host("orders-kn-jsm-channel.shop.svc.cluster.local", "k8s.example") is None


@pytest.mark.parametrize(
    "said",
    [
        "",
        ".",
        ":80",
        "localhost",
        "127.0.0.1:8080",
        "[::1]:8080",
        "orders.shop.svc.cluster.local",
        "orders-kn-jsm-channel",
        "orders-kn-jsm-channel.",
        "-kn-jsm-channel.shop",
        "kn-jsm-channel.shop",
        "orders--kn-jsm-channel.shop",
        "orders-kn-jsm-channel..svc",
        "orders-kn-jsm-channel.shop.com",
        # Anybody may register these, and lead them here.
        "orders-kn-jsm-channel.shop",
        "orders-kn-jsm-channel.shop.svc.example.org",
        "orders-kn-jsm-channel.shop.svc.cluster.local.evil.example",
        "orders-kn-jsm-channel.shop.svc.xcluster.local",
        "orders-kn-jsm-channel.shop.cluster.local",
        # A second spelling of one that counts.
        "orders-kn-jsm-channel.shop.svc.",
        "orders-kn-jsm-channel.shop.svc.cluster.local.",
        "orders-kn-jsm-channel.shop.svc.cluster.local.:80",
        "orders-kn-jsm-channel.shop.svc.cluster.local:",
        "me@orders-kn-jsm-channel.shop.svc",
        "orders-kn-jsm-channel.shop.svc..",
        "orders-kn-jsm-channel.shop.svc.cluster..local",
        "orders-kn-jsm-channel.shop:http",
        "orders-kn-jsm-channel.shop:123456",
        "orders-\u212an-jsm-channel.shop",
        "or ders-kn-jsm-channel.shop",
        "orders-kn-jsm-channel.*",
        "orders-kn-jsm-channel.shop\n",
        f"{'x' * 49}-kn-jsm-channel.shop",
        f"orders-kn-jsm-channel.{'x' * 64}",
    ],
)
def test_any_other_host_is_no_channel(said):
    assert channel_of_host(said) is None


def test_a_path_leads_to_its_channel():
    assert channel_of_path("/shop/orders") == channel("shop", "orders")


NO_PATHS = "/ /shop /shop/ /shop/orders/ //orders /shop// /shop/orders// /shop/orders/x /Shop/orders /shop/Orders"
NO_NAMES = "/shop/ord%65rs /shop/* /shop/> /a.b/orders /shop/.orders /shop/orders. /shop/a..b"


@pytest.mark.parametrize("said", [*NO_PATHS.split(), *NO_NAMES.split(), "", "/a/b c", "/a/b\n", "/a/" + "x" * 254])
def test_any_other_path_is_no_channel(said):
    assert channel_of_path(said) is None


# What cannot be named


NO_LABELS = ["", "Shop", "a.b", "-a", "a-", "a_b", "é", "x" * 64, "shop\n", "*", ">"]
NO_SUBDOMAINS = ["", "Shop", "a..b", "-a", "a-", "a_b", "é", "x" * 254, "a\n", "*", ">", ".a", "a.", "a.-b"]


@pytest.mark.parametrize("make", [channel, stream, host, path])
@pytest.mark.parametrize(
    ("namespace", "name", "field"),
    [
        *((namespace, "orders", "metadata.namespace") for namespace in NO_LABELS),
        *(("shop", name, "metadata.name") for name in NO_SUBDOMAINS),
    ],
)
def test_what_kubernetes_would_not_have_is_refused(make, namespace, name, field):
    with pytest.raises(InvalidSpec) as refusal:
        make(namespace, name)
    assert refusal.value.field == field


def test_a_consumer_is_named_after_the_uid():
    assert durable("0fc1b5f6-1111-4222-8333-abcdefabcdef") == "KN_SUB_0FC1B5F6111142228333ABCDEFABCDEF"


@pytest.mark.parametrize("uid", ["", "-", "a b", "a.b", "a_b", "a/b", ">", "é", "x" * 129, "a\n"])
def test_what_is_no_uid_names_no_consumer(uid):
    with pytest.raises(InvalidSpec) as refusal:
        durable(uid)
    assert refusal.value.field == "uid"


@pytest.mark.parametrize(
    ("name", "then"),
    [
        ("KN_SHOP__MY_ORDERS", ("shop", "my-orders")),
        ("KN_SHOP__A__B", None),
        ("KN_SHOP__ORDERS_aside", None),
        ("KN_SHOP", None),
        ("kn_shop__orders", None),
        ("ORDERS", None),
        ("", None),
    ],
)
def test_a_plain_stream_says_whose_it_is(name, then):
    assert parse_stream(name) == then


# Laws


@given(channels, channels)
@example(("a", "b--c"), ("a--b", "c"))
@example(("a", "b.c"), ("a", "b-c"))
@example(("a", LONG), ("a", SHORTENED))
@example(("a", "b.c"), ("a", f"b-c-------------{md5(b'b.c').hexdigest()}"))
@example(("a--a", "b"), ("a--a", "b-kn-jsm-channel"))
def test_two_channels_share_no_name(one, other):
    assume(one != other)
    assert channel(*one) != channel(*other)
    assert channel(*one).subject != channel(*other).subject
    assert channel(*one).aside_subjects != channel(*other).aside_subjects
    streams = {stream(*one), aside(stream(*one)), stream(*other), aside(stream(*other))}
    assert len(streams) == 4


@given(channels)
def test_host_and_path_lead_to_the_channel_of_the_manifest(names):
    assert channel_of_host(host(*names)) == channel(*names)
    assert channel_of_path(path(*names)) == channel(*names)


@given(channels)
def test_every_label_is_legal_in_dns(names):
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", channel(*names).label)


@given(channels)
def test_every_name_is_legal_in_nats(names):
    assert re.fullmatch(r"[A-Z0-9_]+(_x[0-9a-f]{16})?", stream(*names))
    assert len(stream(*names)) <= 180
    found = channel(*names)
    for subject in (found.subject, found.stage_subject("KN_SUB_1", 1), found.parked_subject("KN_SUB_1", 1, 2)):
        assert all(re.fullmatch(r"[A-Za-z0-9_-]+", token) for token in subject.split("."))


@given(channels)
def test_exactly_the_plain_streams_can_be_read_back(names):
    assert parse_stream(stream(*names)) == (names if is_plain(*names) else None)


@given(st.text())
def test_any_host_and_path_is_a_channel_or_none(said):
    assert channel_of_host(said) is None or said.isascii()
    assert channel_of_path(said) is None or said.isascii()

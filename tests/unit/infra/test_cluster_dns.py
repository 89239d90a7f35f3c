"""The DNS of `task cluster`: the addresses behind names, and their form on the wire."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import pytest

from infra.cluster.dns import wire
from infra.cluster.dns.__main__ import answer
from infra.cluster.dns.wire import CNAME, A, Code, Malformed, Record
from infra.cluster.dns.zone import Zone

AAAA, SRV = 28, 33


def service(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"spec": spec}


def slice_of(name: str, *endpoints: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"metadata": {"labels": {"kubernetes.io/service-name": name}}, "endpoints": list(endpoints)}


READY = {"addresses": ["10.1.0.7"], "hostname": "nats-0", "conditions": {"ready": True}}
STARTING = {"addresses": ["10.1.0.8"], "hostname": "nats-1", "conditions": {"ready": False}}
ZONE = Zone(
    services={
        ("shop", "orders"): service({"clusterIP": "10.0.0.5"}),
        ("shop", "headless"): service({"clusterIP": "None"}),
        ("shop", "early"): service({"clusterIP": "None", "publishNotReadyAddresses": True}),
        ("shop", "elsewhere"): service({"type": "ExternalName", "externalName": "orders.shop.svc.cluster.local"}),
        ("shop", "outside"): service({"type": "ExternalName", "externalName": "www.example.com"}),
        ("shop", "ring"): service({"type": "ExternalName", "externalName": "ring.shop.svc.cluster.local"}),
    },
    slices={
        ("shop", "headless-1"): slice_of("headless", READY, STARTING),
        ("shop", "early-1"): slice_of("early", STARTING),
        ("other", "headless-1"): slice_of("headless", {"addresses": ["10.1.0.9"]}),
    },
)


@pytest.mark.parametrize(
    ("name", "kind", "records"),
    [
        pytest.param("orders.shop", A, [(A, "10.0.0.5")], id="a Service has an address"),
        pytest.param("orders.shop", AAAA, [], id="but none of the other kind, and is there all the same"),
        pytest.param("orders.shop", SRV, [], id="nor anything else"),
        pytest.param("headless.shop", A, [(A, "10.1.0.7")], id="a headless one has those of its pods that are ready"),
        pytest.param("early.shop", A, [(A, "10.1.0.8")], id="or of all, if it says so"),
        pytest.param("nats-0.headless.shop", A, [(A, "10.1.0.7")], id="a pod is found by its host name"),
        pytest.param("10-1-0-7.headless.shop", A, [(A, "10.1.0.7")], id="and by its address"),
        pytest.param(
            "elsewhere.shop",
            A,
            [(CNAME, "orders.shop.svc.cluster.local"), (A, "10.0.0.5")],
            id="another name is followed",
        ),
        pytest.param("outside.shop", A, [(CNAME, "www.example.com")], id="unless it leads out of the cluster"),
        pytest.param("nobody.shop", A, None, id="a Service that is not there"),
        pytest.param("orders.other", A, None, id="in that namespace"),
        pytest.param("nats-1.headless.shop", A, None, id="a pod that is not ready"),
        pytest.param("a.b.orders.shop", A, None, id="too many labels"),
    ],
)
def test_a_name_leads_to_what_the_cluster_has(name: str, kind: int, records: list[tuple[int, str]] | None) -> None:
    found = ZONE.find(f"{name}.svc.cluster.local", kind)

    assert (None if found is None else [(each.kind, each.value) for each in found]) == records


@pytest.mark.parametrize("name", ["www.example.com", "svc.cluster.local", "cluster.local", "orders.shop", ""])
def test_names_of_others_do_not_exist(name: str) -> None:
    assert ZONE.find(name, A) is None


def test_names_that_lead_to_one_another_come_to_an_end() -> None:
    found = ZONE.find("ring.shop.svc.cluster.local", A)

    assert found is not None
    assert {each.kind for each in found} == {CNAME}


def query(name: str, kind: int = A, flags: int = 0x0100) -> bytes:
    labels = b"".join(bytes([len(each)]) + each.encode() for each in name.split("."))
    return struct.pack(">HHHHHH", 4711, flags, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", kind, 1)


def test_an_answer_repeats_the_question_and_has_the_records() -> None:
    said = answer(ZONE, query("Orders.Shop.svc.cluster.local"), over_udp=True)

    assert said[:2] == struct.pack(">H", 4711)
    # A response, authoritative, recursion wanted and available, no error.
    assert said[2:4] == b"\x85\x80"
    assert b"\x06Orders\x04Shop" in said
    assert struct.unpack(">H", said[6:8]) == (1,)
    assert said.endswith(bytes([10, 0, 0, 5]))


def test_a_name_that_is_not_there_is_told_as_such() -> None:
    said = answer(ZONE, query("nobody.shop.svc.cluster.local"), over_udp=True)

    assert said[3] & 0x0F == Code.NO_SUCH_NAME
    assert struct.unpack(">H", said[6:8]) == (0,)


def test_too_many_records_for_a_datagram_send_the_asker_to_tcp() -> None:
    asked = wire.question(query("many.shop.svc.cluster.local"))
    records = [Record(asked.name, A, f"10.1.0.{number}") for number in range(100)]

    datagram = wire.answer(asked, Code.FINE, records, over_udp=True)
    stream = wire.answer(asked, Code.FINE, records)

    assert len(datagram) <= 512
    assert datagram[2] & 0x02
    assert struct.unpack(">H", datagram[6:8]) == (0,)
    assert not stream[2] & 0x02
    assert struct.unpack(">H", stream[6:8]) == (100,)


def test_what_is_no_query_is_not_implemented() -> None:
    notify = query("orders.shop.svc.cluster.local", flags=4 << 11)

    assert answer(ZONE, notify, over_udp=True)[3] & 0x0F == Code.NOT_IMPLEMENTED


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(query("a.b")[:-3], id="cut off"),
        pytest.param(struct.pack(">HHHHHH", 1, 0x0100, 2, 0, 0, 0) + b"\0\0\1\0\1", id="two questions"),
        pytest.param(struct.pack(">HHHHHH", 1, 0x8100, 1, 0, 0, 0) + b"\0\0\1\0\1", id="an answer"),
        pytest.param(struct.pack(">HHHHHH", 1, 0x0100, 1, 0, 0, 0) + b"\xc0\x0c\0\1\0\1", id="a pointer to itself"),
    ],
)
def test_bytes_that_ask_nothing_get_no_answer(data: bytes) -> None:
    with pytest.raises(Malformed):
        answer(ZONE, data, over_udp=True)

"""The status table of `receive`: events that are stored as they came, and refusals with their words.

A real `receive` process and a real nats-server. Every answer lists the methods that a channel knows.
"""

from __future__ import annotations

import pytest

from tests.support.http.sending import BINARY, Ask
from tests.support.nats.streams import Channel, Nats

pytest_plugins = ["tests.support.functions.served"]

DATA = b'{ "n" : 1.0 }'
STRUCTURED = {"content-type": "application/cloudevents+json; charset=utf-8"}
JSON_EVENT = b'{"specversion":"1.0","id":"1","source":"/shop","type":"order.created"%b}'


def without(*names: str) -> dict[str, str]:
    return {name: value for name, value in BINARY.items() if name not in names}


# ── accepted ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_accepted_event_lies_in_the_stream_with_its_attributes_as_headers_and_its_bytes_untouched(
    ask: Ask, nats: Nats, orders: Channel
) -> None:
    data = bytes(range(256))
    reply = await ask(orders.path, data, {**BINARY, "ce-note": "gr%C3%BC%C3%9Fe", "content-type": "image/png"})
    assert (reply.status, reply.body) == (202, b"")
    [stored] = await nats.stored(orders.stream)
    assert stored.subject == f"demo.{orders.name}._knative"
    assert stored.headers == {
        # BLAKE2b, 128 bits, of "5:/shop1": the source with its length, and the id.
        "Nats-Msg-Id": "20803796f5af60d50a4b67945260a8f1",
        "ce-specversion": "1.0",
        "ce-id": "1",
        "ce-source": "/shop",
        "ce-type": "order.created",
        "ce-note": "gr%C3%BC%C3%9Fe",
        "content-type": "image/png",
    }
    assert stored.data == data


async def test_an_event_of_version_0_3_stays_one(ask: Ask, nats: Nats, orders: Channel) -> None:
    assert (await ask(orders.path, headers={**BINARY, "ce-specversion": "0.3"})).status == 202
    [stored] = await nats.stored(orders.stream)
    assert stored.headers["ce-specversion"] == "0.3"


@pytest.mark.parametrize(
    ("members", "content_type", "data"),
    [
        pytest.param(b', "data":{"n":1}', "application/json", b'{"n":1}', id="structured"),
        pytest.param(
            b' , "data" : { "n" : 1.0,\t"big":1e400 }\n ',
            "application/json",
            b'{ "n" : 1.0,\t"big":1e400 }',
            id="structured with odd blanks and numbers keeps the data's own text",
        ),
        pytest.param(
            b',"datacontenttype":"text/plain","data":"gr\\u00fc\\u00dfe"',
            "text/plain",
            "grüße".encode(),
            id="structured text is stored as UTF-8",
        ),
        pytest.param(
            b',"datacontenttype":"image/png","data_base64":"AAH/"',
            "image/png",
            b"\x00\x01\xff",
            id="structured base64 is stored as bytes",
        ),
    ],
)
async def test_a_structured_event_is_stored_in_binary_mode(
    ask: Ask, nats: Nats, orders: Channel, members: bytes, content_type: str, data: bytes
) -> None:
    assert (await ask(orders.path, JSON_EVENT % members, STRUCTURED)).status == 202
    [stored] = await nats.stored(orders.stream)
    assert stored.headers == {
        "Nats-Msg-Id": "20803796f5af60d50a4b67945260a8f1",
        "ce-specversion": "1.0",
        "ce-id": "1",
        "ce-source": "/shop",
        "ce-type": "order.created",
        "content-type": content_type,
    }
    assert stored.data == data


@pytest.mark.parametrize(
    ("headers", "data"),
    [
        pytest.param({**STRUCTURED, "content-type": "application/cloudevents+json; charset=utf8"}, b"", id="utf8"),
        pytest.param({**STRUCTURED, "content-type": "application/cloudevents+json;charset=us-ascii"}, b"", id="ASCII"),
        pytest.param(STRUCTURED, b"\xef\xbb\xbf", id="a byte order mark"),
        pytest.param({**BINARY, "ce-subject": "", "ce-time": "", "ce-dataschema": ""}, None, id="empty attributes"),
    ],
)
async def test_what_producers_of_the_go_channel_send_is_taken(
    ask: Ask, nats: Nats, orders: Channel, headers: dict[str, str], data: bytes | None
) -> None:
    body = DATA if data is None else data + JSON_EVENT % b',"subject":"","data":{"n":1}'
    assert (await ask(orders.path, body, headers)).status == 202
    [stored] = await nats.stored(orders.stream)
    assert stored.headers["ce-id"] == "1"
    assert not {"ce-subject", "ce-time", "ce-dataschema"} & stored.headers.keys()


async def test_headers_that_travel_with_an_event_are_stored_and_others_are_not(
    ask: Ask, nats: Nats, orders: Channel
) -> None:
    travelling = {
        "x-request-id": "r-1",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "x-b3-traceid": "80f198ee56343ba864fe8b2a57d3eff7",
        "knative-error": "none",
    }
    await ask(orders.path, headers={**BINARY, **travelling, "cookie": "c=1", "authorization": "Bearer secret"})
    [stored] = await nats.stored(orders.stream)
    others = stored.headers.keys() - BINARY.keys() - {"Nats-Msg-Id"}
    assert {name: stored.headers[name] for name in others} == travelling


# Commands to the server, as it takes them from whoever publishes to a stream that allows them.
COMMANDS = {
    "Nats-Rollup": "all",
    "Nats-TTL": "1s",
    "Nats-Schedule": "@every 1s",
    "Nats-Schedule-Target": "victim.x._knative",
    "Nats-Expected-Stream": "ANOTHER",
    "Nats-Expected-Last-Sequence": "77",
    "Nats-Batch-Id": "b",
    "Nats-Batch-Sequence": "1",
    "Nats-Incr": "+1",
    "Nats-Msg-Id": "20803796f5af60d50a4b67945260a8f1",
}


@pytest.mark.parametrize(
    ("data", "headers"), [(DATA, {**BINARY, "ce-id": "2"}), (JSON_EVENT.replace(b'"1"', b'"2"') % b"", STRUCTURED)]
)
async def test_no_header_of_a_producer_is_a_command_to_the_server(
    ask: Ask, nats: Nats, data: bytes, headers: dict[str, str]
) -> None:
    allowed = ("allow_rollup_hdrs", "allow_msg_ttl", "allow_msg_schedules", "allow_atomic")
    channel = await nats.make_channel(**dict.fromkeys(allowed, True))
    await ask(channel.path)

    reply = await ask(channel.path, data, {**headers, **COMMANDS})

    assert reply.status == 202
    first, second = await nats.stored(channel.stream)
    assert {name for name in second.headers if name.startswith("Nats-")} == {"Nats-Msg-Id"}
    assert second.headers["Nats-Msg-Id"] != first.headers["Nats-Msg-Id"]


async def test_an_event_sent_twice_is_accepted_twice_and_stored_once(ask: Ask, nats: Nats, orders: Channel) -> None:
    assert [(await ask(orders.path)).status for _ in range(2)] == [202, 202]
    assert len(await nats.stored(orders.stream)) == 1


async def test_the_same_id_from_another_source_is_another_event(ask: Ask, nats: Nats, orders: Channel) -> None:
    assert (await ask(orders.path)).status == 202
    assert (await ask(orders.path, headers={**BINARY, "ce-source": "/warehouse"})).status == 202
    assert [one.headers["ce-source"] for one in await nats.stored(orders.stream)] == ["/shop", "/warehouse"]


# ── methods ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE"])
async def test_events_are_sent_with_post_only(ask: Ask, orders: Channel, method: str) -> None:
    assert (await ask(orders.path, b"", {}, method)).status == 405


async def test_a_mirror_takes_no_events_and_says_so(ask: Ask) -> None:
    by_path = await ask("/shop/copies/read-only")
    by_host = await ask("/read-only", headers={**BINARY, "host": "copies-kn-jsm-channel.shop.svc.cluster.local"})
    asked = await ask("/shop/copies/read-only", b"", {}, "OPTIONS")
    assert [(one.status, one.json["title"]) for one in (by_path, by_host)] == [(403, "Read-only address")] * 2
    assert "send to the channel, or publish to the stream, that is mirrored" in by_path.json["detail"]
    assert asked.status == 200


async def test_nor_does_a_channel_that_is_no_mirror_under_such_an_address_and_it_is_called_none(
    ask: Ask, orders: Channel
) -> None:
    reply = await ask(f"{orders.path}/read-only")
    assert reply.status == 403
    assert "this channel is a mirror" not in reply.json["detail"]
    assert reply.json["detail"].endswith("a channel that is no mirror has its address without /read-only")


async def test_a_missing_channel_is_titled_as_one_that_is_not_found(ask: Ask) -> None:
    reply = await ask("/shop/nobody")
    assert (reply.status, reply.json["title"]) == (404, "Not found")


async def test_options_answers_the_webhook_handshake(ask: Ask, orders: Channel) -> None:
    reply = await ask(orders.path, b"", {"webhook-request-origin": "shop.example"}, "OPTIONS")
    assert reply.status == 200
    assert reply.headers["WebHook-Allowed-Origin"] == "*"
    assert reply.headers["WebHook-Allowed-Rate"] == "*"


# ── not an event ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("body", "headers", "faulty"),
    [
        pytest.param(DATA, without("ce-id"), ["id"], id="no id"),
        pytest.param(DATA, without("ce-specversion"), ["specversion"], id="no specversion"),
        pytest.param(
            DATA,
            {**without("ce-id", "ce-source"), "ce-type": "", "ce-time": "noon"},
            ["id", "source", "time", "type"],
            id="several faults are named at once",
        ),
        pytest.param(
            DATA, {"content-type": "application/json"}, ["id", "source", "specversion", "type"], id="no event at all"
        ),
        pytest.param(DATA, {**BINARY, "ce-specversion": "2.0"}, ["specversion"], id="an unknown specversion"),
        pytest.param(DATA, {**BINARY, "ce-My_Name": "x"}, ["my_name"], id="a name that no attribute can have"),
        pytest.param(DATA, {**BINARY, "ce-note": "a%0D%0Ab"}, ["note"], id="an encoded line break"),
        pytest.param(b'{"specversion":', STRUCTURED, ["body"], id="structured with broken JSON"),
        pytest.param(b"[]", STRUCTURED, ["body"], id="structured, but no object"),
        pytest.param(
            b'{"specversion":"1.0","type":5}',
            STRUCTURED,
            ["id", "source", "type"],
            id="structured, faults named at once",
        ),
        pytest.param(
            b"[%b]" % (JSON_EVENT % b""),
            {"content-type": "application/cloudevents-batch+json"},
            ["content-type"],
            id="a batch",
        ),
        pytest.param(b"<event/>", {"content-type": "application/cloudevents+xml"}, ["content-type"], id="XML"),
    ],
)
async def test_what_is_no_event_is_refused_with_every_fault_named(
    ask: Ask, nats: Nats, orders: Channel, body: bytes, headers: dict[str, str], faulty: list[str]
) -> None:
    reply = await ask(orders.path, body, headers)
    assert reply.status == 400
    assert sorted(fault["attribute"] for fault in reply.json["faults"]) == faulty
    assert all(fault["problem"] in reply.detail for fault in reply.json["faults"])
    assert await nats.stored(orders.stream) == []


async def test_compressed_events_are_refused_since_subscribers_would_get_them_unlabelled(
    ask: Ask, orders: Channel
) -> None:
    reply = await ask(orders.path, headers={**BINARY, "content-encoding": "gzip"})
    assert reply.status == 415
    assert "'gzip'" in reply.detail

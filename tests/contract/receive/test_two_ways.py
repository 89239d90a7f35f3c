"""The short way of an event and the way through ASGI: the same bytes to the client, the same messages in the stream.

Whatever is sent goes to two servers that differ in nothing but that, each with a nats-server of its own.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.core.event.delivery_claim import Claims
from headrace.core.http import Response
from headrace.host import serving
from headrace.receive.short_way import Intake
from tests.support.functions.in_process import InProcess
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Channel, Nats, Stored

ORDERS = Channel("demo", "orders")
SMALL = Channel("demo", "small")
FULL = Channel("demo", "full")
LIMITS = {ORDERS: {}, SMALL: {"max_msg_size": 400}, FULL: {"max_msgs": 3, "discard": "new"}}
EVENT = {"ce-specversion": "1.0", "ce-source": "/shop", "ce-type": "order.created"}
KEY = "5" * 64
PROVEN = Claims(bytes.fromhex(KEY)).of(b"KN_X/KN_SUB_X/reply/0011223344556677/", 1, 2).decode()
# The server closes after this one, which is how we know that all has been said.
LAST = b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"


@dataclass
class Way:
    """A `receive`, its nats-server, and what it took the short way."""

    served: InProcess
    nats_url: str
    taken: list[bytes] = field(default_factory=list)

    def says(self, pieces: list[bytes], pause: float = 0.0005) -> bytes:
        """What comes back on one connection until the server closes it.

        Args:
            pause: seconds between two pieces.
        """
        host, port = self.served.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            try:
                for piece in pieces:
                    connection.sendall(piece)
                    time.sleep(pause)
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused and closed meanwhile
            said = b""
            try:
                while piece := connection.recv(65536):
                    said += piece
            except ConnectionResetError:
                pass
            return said

    def stored(self) -> list[Stored]:
        async def look() -> list[Stored]:
            async with Nats(self.nats_url) as nats:
                return [one for channel in LIMITS for one in await nats.stored(channel.stream)]

        return asyncio.run(look())


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Way, Way]]:
    """The short one and the long one."""
    with pytest.MonkeyPatch.context() as patch, ExitStack() as opened:
        patch.setattr(serving, "KEEP_ALIVE_SECONDS", 2)
        patch.setenv("HEADRACE_DELIVERY_KEY", KEY)
        made = []
        for name in ("short", "long"):
            server = NatsServer(tmp_path_factory.mktemp(name), config="max_payload: 16384").start()
            opened.callback(server.kill)
            asyncio.run(_make_channels(server.url))
            patch.setenv("NATS_URL", server.url)
            served = opened.enter_context(InProcess("receive", short_way=name == "short"))
            made.append(Way(served, server.url))
        for way in made:
            # Connected to NATS, without which the first event goes the long way.
            assert way.says([LAST.replace(b"healthz", b"readyz")]).startswith(b"HTTP/1.1 200 ")
        _note(patch, made[0].taken)
        yield made[0], made[1]


def _note(patch: pytest.MonkeyPatch, taken: list[bytes]) -> None:
    take = Intake.take

    def noted(self: Intake, data: bytes, answer: Callable[[Response], None]) -> int | None:
        lacks = take(self, data, answer)
        if lacks == 0:
            taken.append(data)
        return lacks

    patch.setattr(Intake, "take", noted)


async def _make_channels(url: str) -> None:
    async with Nats(url) as nats:
        for channel, limits in LIMITS.items():
            await nats.make_channel(channel, **limits)


def request(
    target: str,
    headers: dict[str, str],
    body: bytes,
    *,
    method: str = "POST",
    version: str = "1.1",
    chunked: bool = False,
) -> bytes:
    host = {} if "host" in headers else {"host": "x"}
    length = {"transfer-encoding": "chunked"} if chunked else {"content-length": str(len(body))}
    lines = "".join(f"{name}: {value}\r\n" for name, value in {**host, **headers, **length}.items())
    framed = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if chunked and body else b"0\r\n\r\n" if chunked else body
    return f"{method} {target} HTTP/{version}\r\n{lines}\r\n".encode("latin-1") + framed


def structured(members: str) -> bytes:
    return f'{{"specversion":"1.0","source":"/shop","type":"t"{members}}}'.encode()


targets = st.sampled_from(
    [
        *(ORDERS.path, ORDERS.path, ORDERS.path, SMALL.path, FULL.path, "/demo/nobody", "/demo/orders?a=b", "/"),
        *("/demo%2Forders", "//demo/orders", "/demo/orders/", "/Demo/Orders", "/demo/%6frders", "*", "/healthz"),
        "http://other/demo/orders",
    ]
)
ids = st.sampled_from(["1", "2", "3", "4", "gr%C3%BC", "a b", "", '"q"', "\xfc"])
more = st.dictionaries(
    st.sampled_from(
        [
            *("CE-Time", "ce-time", "ce-note", "ce-My_Name", "ce-data", "content-type", "Content-Type", "traceparent"),
            *(
                "knative-x",
                "x-b3-flags",
                "cookie",
                "content-encoding",
                "forwarded",
                "k-original-host",
                "host",
                "origin",
            ),
            *("expect", "connection", "upgrade", "http2-settings", "user-agent", "ce-id", "ce-specversion"),
            *("knative-headrace-delivery", "headrace-hops"),
        ]
    ),
    st.sampled_from(
        [
            *("x", "", " y ", "2026-11-28T10:00:00Z", "noon", "application/json", "text/plain; charset=utf-8"),
            *("identity", "gzip", "host=orders-kn-jsm-channel.demo.svc", "orders-kn-jsm-channel.demo.svc"),
            *(PROVEN, PROVEN[:-1], "254"),
            *("100-continue", "close", "keep-alive", "Upgrade, HTTP2-Settings", "h2c", "kube-probe/1.33", "1.0", "0.3"),
        ]
    ),
    max_size=3,
)
bodies = st.sampled_from([b"", b"data", b'{ "n" : 1.0 }', bytes(range(256)), bytes(3000), bytes(9000)])
binary = st.builds(
    lambda target, id, more, body, method, version, chunked: request(
        target, {**EVENT, "ce-id": id, **more}, body, method=method, version=version, chunked=chunked
    ),
    targets,
    ids,
    more,
    bodies,
    st.sampled_from(["POST"] * 6 + ["GET", "OPTIONS", "PUT", "HEAD"]),
    st.sampled_from(["1.1"] * 6 + ["1.0"]),
    st.sampled_from([False] * 4 + [True]),
)
json_events = st.builds(
    lambda target, id, rest, kind: request(target, {"content-type": kind}, structured(f',"id":"{id}"{rest}')),
    targets,
    st.sampled_from(["1", "5", "6"]),
    st.sampled_from(["", ',"data":{"n" : 1.0}', ',"data":"text"', ',"data_base64":"AAH/"', ',"n":7', ',"id":"2"', ","]),
    st.sampled_from(
        [
            *("application/cloudevents+json", "application/cloudevents+json; charset=UTF-8"),
            *("application/cloudevents+json;charset=latin-1", "application/cloudevents-batch+json"),
        ]
    ),
)
garbage = st.sampled_from([b"POST\r\n\r\n", b"\r\n", b"GET / HTTP/1.1\r\nhost x\r\n\r\n"])
plain = st.builds(
    lambda id, kind: (
        request(ORDERS.path, {"content-type": kind}, structured(f',"id":"{id}","data":[1]'))
        if kind
        else request(ORDERS.path, {**EVENT, "ce-id": id}, b"data")
    ),
    st.integers(10, 10_000_000).map(str),
    st.sampled_from(["", "", "application/cloudevents+json"]),
)
events = plain | binary | binary | json_events
requests = events | garbage


def cut(sent: bytes, places: list[int]) -> list[bytes]:
    at = sorted({place % len(sent) for place in places})
    return [sent[begin:end] for begin, end in zip([0, *at], [*at, len(sent)], strict=True)]


def event(
    target: str = ORDERS.path, *, body: bytes = b"1", version: str = "1.1", chunked: bool = False, **more: str
) -> bytes:
    """An event with one thing about it that matters."""
    headers = {**EVENT, "ce-id": "one", **{name.replace("_", "-"): value for name, value in more.items()}}
    return request(target, headers, body, version=version, chunked=chunked)


quickly = settings(max_examples=150, deadline=None)


@quickly
@given(st.lists(requests, min_size=1, max_size=5))
@example([request(ORDERS.path, {**EVENT, "ce-id": "at-once"}, b"1") for _ in range(4)])
@example([event(knative_headrace_delivery=claim) for claim in ("", PROVEN, PROVEN, PROVEN[:-1])])
@example([request(FULL.path, {**EVENT, "ce-id": f"{at}"}, b"1") for at in range(5)])
@example([request(SMALL.path, {**EVENT, "ce-id": "large"}, bytes(500)), request(ORDERS.path, EVENT, b"")])
@example([request(ORDERS.path, {**EVENT, "ce-id": "too-large"}, bytes(9000))])
@example([event(expect="100-continue"), event()])
@example([event(connection="close"), event()])
@example([event(version="1.0"), event()])
@example([event(version="1.0", connection="keep-alive"), event()])
@example([event(content_encoding="gzip"), event(content_encoding="identity"), event(chunked=True), event()])
@example([event(forwarded="host=small-kn-jsm-channel.demo.svc", body=bytes(500)), event()])
@example([event(k_original_host="small-kn-jsm-channel.demo.svc", body=bytes(500)), event()])
@example([event("/", host="orders-kn-jsm-channel.demo.svc"), event(host="orders-kn-jsm-channel.demo.svc"), event()])
@example([event(connection="upgrade", upgrade="h2c"), event()])
@example([event().replace(b"host: x\r\n", b""), event()])
@example([event(), event(host="x").replace(b"host: x\r\n", b"host: x\r\n" * 2), event()])
@example([event(version="1.0").replace(b"host: x\r\n", b"")])
@example([event(version="2.0"), event()])
@example([event("http://orders-kn-jsm-channel.demo.svc/"), event("http://orders-kn-jsm-channel.demo.svc"), event()])
def test_both_ways_give_the_same_bytes_to_requests_that_come_at_once(
    ways: tuple[Way, Way], conversation: list[bytes]
) -> None:
    short, long = ways
    sent = b"".join([*conversation, LAST])
    assert short.says([sent]) == long.says([sent])


@quickly
@given(requests, st.lists(st.integers(0, 20_000), min_size=1, max_size=3))
@example(event(expect="100-continue", body=bytes(100)), [200])
@example(event("/demo/nobody", body=bytes(100)), [200])
@example(request(ORDERS.path, {**EVENT, "ce-id": "head-first"}, b"1234"), [120])
@example(event(body=bytes(100)).replace(b"host: x\r\n", b""), [200])
def test_both_ways_give_the_same_bytes_to_a_request_that_comes_in_pieces(
    ways: tuple[Way, Way], sent: bytes, places: list[int]
) -> None:
    short, long = ways
    pieces = cut(sent + LAST, places)
    assert short.says(pieces) == long.says(pieces)


@quickly
@given(plain | json_events, st.lists(st.integers(-20, 120), min_size=1, max_size=4))
@example(event(expect="100-continue", body=bytes(100)), [0])
@example(event(body=bytes(9000)), [0, 100])
def test_both_ways_give_the_same_bytes_to_an_event_whose_body_comes_in_pieces(
    ways: tuple[Way, Way], sent: bytes, places: list[int]
) -> None:
    short, long = ways
    head = sent.index(b"\r\n\r\n") + 4
    pieces = [*cut(sent, [head + place for place in places]), LAST]
    assert short.says(pieces) == long.says(pieces)


@settings(max_examples=60, deadline=None)
@given(st.lists(events, min_size=1, max_size=4))
@example([request(ORDERS.path, {**EVENT, "ce-id": "by-turns"}, b"1") for _ in range(3)])
@example([request(FULL.path, {**EVENT, "ce-id": f"by-turns-{at}"}, b"1") for at in range(5)])
@example([event(), event(connection="close"), event()])
def test_both_ways_give_the_same_bytes_to_requests_that_come_by_turns(
    ways: tuple[Way, Way], conversation: list[bytes]
) -> None:
    short, long = ways
    # Most are answered before the next one comes, and it must not matter where one is not. (To garbage it would: behind
    # an event without an answer it gets none of its own.)
    pieces = [*conversation, LAST]
    assert short.says(pieces, pause=0.005) == long.says(pieces, pause=0.005)


@pytest.mark.parametrize("after", [[0], [50], [0, 30, 60]], ids=["behind the head", "in the body", "many times"])
@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_a_small_event_that_comes_in_pieces_takes_the_short_way(
    ways: tuple[Way, Way], after: list[int], mode: str
) -> None:
    short, long = ways
    body = structured(',"id":"pieces","data":[1,2,3]')
    kind = {"content-type": "application/cloudevents+json"}
    sent = event(body=bytes(100)) if mode == "binary" else request(ORDERS.path, kind, body)
    before, head = len(short.taken), sent.index(b"\r\n\r\n") + 4
    pieces = [*cut(sent, [head + at for at in after]), LAST]
    assert short.says(pieces, pause=0.01).startswith(b"HTTP/1.1 202 ")
    assert long.says(pieces).startswith(b"HTTP/1.1 202 ")
    assert short.taken[before:] == [sent]


def test_both_ways_have_stored_the_same(ways: tuple[Way, Way]) -> None:
    short, long = ways
    mine, theirs = short.stored(), long.stored()
    assert [(one.subject, one.headers, one.data) for one in mine] == [
        (one.subject, one.headers, one.data) for one in theirs
    ]
    # And the one way was really the short one, for a good part of it, in both modes.
    assert len(mine) > 20
    assert len([sent for sent in short.taken if b"cloudevents+json" not in sent]) > 20
    assert len([sent for sent in short.taken if b"cloudevents+json" in sent]) > 5


@pytest.mark.parametrize("way", [0, 1], ids=["short", "long"])
def test_an_idle_connection_is_closed_after_the_keep_alive_time_and_not_before(ways: tuple[Way, Way], way: int) -> None:
    host, port = ways[way].served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        for id in ("idle-1", "idle-2"):
            connection.sendall(request(ORDERS.path, {**EVENT, "ce-id": id}, b"1"))
            assert connection.recv(65536).startswith(b"HTTP/1.1 202 ")
            answered = time.monotonic()
            time.sleep(1.2)
        assert connection.recv(1) == b""
        # 2 s, since the fixture says so: after the last answer, not after the first.
        assert time.monotonic() - answered > 1.9

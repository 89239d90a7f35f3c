"""What a client may do to a server, drawn at random: small values, so that commands meet.

A lane is one stream's life: what it is made of, and its phases; between two phases both servers are killed and started
again. All that a command names is a small number, which `side` turns into a name or an arrival of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

SECOND = 1_000_000_000
SUBJECTS = ("a.x", "a.y", "b.x", "b.y.z")
FILTERS = ("", "", "", "", "a.x", "a.*", "b.>", "*.x", ">")


@dataclass(frozen=True)
class Publish:
    """Messages, one after the other; `identity` and `expected` are -1 for none; `expected` is added to the true one."""

    subject: int
    identity: int = -1
    expected: int = -1
    size: int = 8
    headers: bool = False
    count: int = 1


@dataclass(frozen=True)
class Pull:
    """A request; `pin` is "" for none, "own" for the one that was seen last, "wrong" for one that nobody has; `beat` is
    the seconds between heartbeats, 0 for none.
    """

    consumer: int
    batch: int = 1
    seconds: float = 30.0
    max_bytes: int = 0
    no_wait: bool = False
    group: str = ""
    pin: str = ""
    beat: float = 0.0


@dataclass(frozen=True)
class Settle:
    """An ack or the like, of an arrival counted from the latest."""

    back: int
    payload: bytes
    sync: bool = False


@dataclass(frozen=True)
class Leave:
    """Listen to a pull no more, counted from the latest."""

    back: int


@dataclass(frozen=True)
class Ask:
    """A request of the API to `subject`; `$S` in it or in the body is the stream, `$0` a subject's prefix."""

    subject: str
    body: dict[str, Any] | None = None


@dataclass(frozen=True)
class Consume:
    """Make or change a consumer."""

    consumer: int
    config: dict[str, Any]
    action: str = ""


@dataclass(frozen=True)
class Edit:
    """Change the stream's configuration in these members."""

    config: dict[str, Any]


@dataclass(frozen=True)
class Scan:
    """Read the stream by `headrace.io.jetstream.scan`."""

    pattern: str
    headers_only: bool = False


@dataclass(frozen=True)
class Reconnect:
    """Break the connection, and come again without the inboxes that were open."""


@dataclass(frozen=True)
class Lapse:
    """Wait until every ack wait, delay and pull that is short has ended."""


Command = Publish | Pull | Settle | Leave | Ask | Consume | Edit | Scan | Reconnect | Lapse


@dataclass(frozen=True)
class Lane:
    """One stream with one consumer, and what happens to them."""

    stream: dict[str, Any]
    consumer: dict[str, Any]
    phases: list[list[Command]] = field(default_factory=list)


_small = st.sampled_from((0, 0, 0, 0, 0, 1, 2))
_subject = st.integers(0, len(SUBJECTS) - 1)
_pattern = st.sampled_from(("$0a.x", "$0a.*", "$0b.>", "$0>", "$0nobody"))


def _publishes() -> st.SearchStrategy[Publish]:
    identity = st.sampled_from((-1, -1, 0, 1, 2))
    expected = st.sampled_from((-1, -1, -1, 0, 0, 1))
    return st.builds(
        Publish,
        _subject,
        identity,
        expected,
        st.sampled_from((0, 8, 8, 8, 200)),
        st.booleans(),
        st.sampled_from((1, 1, 1, 3)),
    )


def _pulls() -> st.SearchStrategy[Pull]:
    plain = st.builds(
        Pull,
        _small,
        st.integers(1, 5),
        st.sampled_from((30.0, 30.0, 30.0, 30.0, 0.5, 0.0)),
        st.sampled_from((0, 0, 0, 0, 0, 1, 150, 400)),
        st.sampled_from((False, False, False, True)),
    )
    group, pin = st.sampled_from(("keys", "keys", "keys", "others")), st.sampled_from(("", "own", "own", "wrong"))
    grouped = st.builds(
        Pull, _small, st.integers(1, 3), st.sampled_from((30.0, 0.5)), st.just(0), st.just(False), group, pin
    )
    beating = st.builds(
        lambda consumer, batch, seconds, beat: Pull(consumer, batch, seconds, beat=beat),
        _small,
        st.integers(1, 3),
        st.sampled_from((1.5, 0.5)),
        st.sampled_from((0.2, 0.5)),
    )
    return st.one_of(plain, plain, plain, grouped, beating)


def _settles() -> st.SearchStrategy[Settle]:
    payload = st.sampled_from((b"+ACK", b"+ACK", b"", b"-NAK", b"-NAK", b'-NAK {"delay":700000000}', b"+WPI"))
    return st.builds(Settle, st.integers(0, 4), payload, st.booleans())


def _asks() -> st.SearchStrategy[Ask]:
    sequence = st.integers(0, 9)
    gets = st.one_of(
        st.builds(lambda s: {"seq": s}, sequence),
        st.builds(lambda s, p: {"seq": s, "next_by_subj": p}, sequence, _pattern),
        st.builds(lambda p: {"last_by_subj": p}, st.sampled_from(("$0a.x", "$0b.y.z"))),
    )
    purges = st.one_of(
        st.builds(lambda p: {"filter": p}, _pattern),
        st.builds(lambda p: {"filter": p}, st.sampled_from(("$0a.x", "$0a.y"))),
        st.builds(lambda p, k: {"filter": p, "keep": k}, _pattern, st.integers(1, 2)),
        st.builds(lambda p, s: {"filter": p, "seq": s}, _pattern, st.integers(1, 6)),
        st.just({}),
    )
    batches = st.builds(
        lambda s, b, m: {"seq": s, "batch": b, **({"max_bytes": m} if m else {})},
        st.integers(1, 9),
        st.integers(1, 4),
        st.sampled_from((0, 0, 60)),
    )
    return st.one_of(
        st.builds(Ask, st.just("STREAM.MSG.GET.$S"), gets),
        st.builds(Ask, st.sampled_from(("DIRECT.GET.$S.$0a.x", "DIRECT.GET.$S.$0b.y.z"))),
        st.builds(Ask, st.just("DIRECT.GET.$S"), st.one_of(gets, batches)),
        st.builds(Ask, st.just("STREAM.PURGE.$S"), purges),
        st.builds(Ask, st.just("STREAM.MSG.DELETE.$S"), st.builds(lambda s: {"seq": s, "no_erase": True}, sequence)),
        st.builds(Ask, st.just("STREAM.INFO.$S"), st.builds(lambda p: {"subjects_filter": p}, _pattern)),
        st.builds(Ask, st.just("STREAM.NAMES"), st.builds(lambda p: {"subject": p}, _pattern)),
        st.builds(Ask, st.sampled_from(("CONSUMER.LIST.$S", "STREAM.INFO.$S_none", "CONSUMER.LIST.$S_none"))),
        st.builds(Ask, st.sampled_from(("CONSUMER.DELETE.$S.C0", "CONSUMER.DELETE.$S.C1", "CONSUMER.INFO.$S.C1"))),
        st.builds(Ask, st.just("CONSUMER.UNPIN.$S.C0"), st.sampled_from(({"group": "keys"}, {"group": "others"}))),
    )


def consumer_configs() -> st.SearchStrategy[dict[str, Any]]:
    """Consumers as `reconcile` makes them, and some as people do."""
    return st.builds(
        _consumer,
        st.sampled_from((30, 30, 1.5)),
        st.sampled_from((10_000, 2, 1, 0)),
        st.sampled_from(FILTERS),
        st.sampled_from((*["all"] * 7, "new", "last", "by_start_sequence")),
        st.sampled_from((*[""] * 6, "pinned", "pinned", "none", "headers")),
        st.sampled_from((*[0] * 9, 2)),
    )


def _consumer(wait: float, most: int, pattern: str, start: str, kind: str, batch: int) -> dict[str, Any]:
    config: dict[str, Any] = {
        "ack_policy": "explicit",
        "ack_wait": int(wait * SECOND),
        "max_deliver": -1,
        "max_ack_pending": most,
        "deliver_policy": start,
        "opt_start_seq": 3 if start == "by_start_sequence" else 0,
        "filter_subject": f"$0{pattern}" if pattern else "",
        "metadata": {"kind": kind},
        "max_batch": batch,
    }
    if kind == "pinned":
        more = {"priority_groups": ["keys"], "priority_policy": "pinned_client", "priority_timeout": 2 * SECOND}
        config |= more
    if kind == "headers":
        config["headers_only"] = True
    if kind == "none":
        config |= {"ack_policy": "none", "max_ack_pending": 0, "ack_wait": 0}
    if pattern == "a.*" and most == 2:
        config |= {"filter_subject": "", "filter_subjects": ["$0a.*", "$0b.x"]}
    return config


def stream_configs() -> st.SearchStrategy[dict[str, Any]]:
    """Streams of channels and asides, and some with every limit."""
    return st.builds(
        lambda size, each, count, discard, retention, direct, age, window: {
            "max_bytes": size,
            "max_msgs_per_subject": each,
            "max_msgs": count,
            "discard": discard,
            "discard_new_per_subject": False,
            "retention": retention,
            "allow_direct": direct,
            "max_msg_size": 180 if count == 5 else -1,
            "max_age": int(age * SECOND),
            "duplicate_window": int(min(window, age or window) * SECOND),
        },
        st.sampled_from((*[-1] * 5, 400)),
        st.sampled_from((*[-1] * 4, 1, 2)),
        st.sampled_from((*[-1] * 4, 5)),
        st.sampled_from(("old", "new")),
        st.sampled_from((*["limits"] * 6, "workqueue")),
        st.sampled_from((True, True, False)),
        st.sampled_from((*[0] * 7, 2.0)),
        st.sampled_from((*[120.0] * 7, 1.0)),
    )


def commands() -> st.SearchStrategy[Command]:
    consume = st.builds(Consume, _small, consumer_configs(), st.sampled_from(("", "create", "update")))
    return st.one_of(
        _publishes(),
        _publishes(),
        _publishes(),
        _pulls(),
        _pulls(),
        _settles(),
        _settles(),
        _settles(),
        _asks(),
        consume,
        st.one_of(
            st.builds(Leave, st.integers(0, 2)),
            st.builds(Edit, stream_configs()),
            st.builds(Scan, _pattern, st.booleans()),
            st.just(Reconnect()),
            st.just(Lapse()),
        ),
    )


def lanes(length: int = 40) -> st.SearchStrategy[list[Lane]]:
    """Lanes that run side by side; in some draws the servers are killed once in between."""
    # Lists of a drawn length are longer than those that Hypothesis makes by itself.
    phase = st.integers(0, length).flatmap(lambda size: st.lists(commands(), min_size=size, max_size=size))

    def of(phases: int) -> st.SearchStrategy[list[Lane]]:
        several = st.lists(phase, min_size=phases, max_size=phases)
        lane = st.builds(Lane, stream_configs(), consumer_configs(), several)
        return st.integers(1, 4).flatmap(lambda size: st.lists(lane, min_size=size, max_size=size))

    return st.sampled_from((1, 1, 1, 1, 1, 2)).flatmap(of)

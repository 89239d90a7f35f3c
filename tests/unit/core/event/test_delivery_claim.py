"""Claims on deliveries: their content, who believes them, and the message ids that follow from them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.caller_token import delivery_key
from headrace.core.delivery.stage_record import Stage
from headrace.core.errors import Misconfigured
from headrace.core.event.delivery_claim import Claims, beginning, count, hops
from headrace.core.event.nats_codec import ascii_msg_id, msg_id
from headrace.io.delivery_key import claims

OURS = Claims(b"the key of this installation")
BEGIN = beginning("KN_SHOP__ORDERS", "KN_SUB_U", Stage.REPLY, "http://reply/")


def test_a_claim_is_read_back_by_whoever_has_the_key() -> None:
    value = OURS.of(BEGIN, 7, 1_700_000_000)
    claim, _, proof = value.rpartition(b".")
    assert claim == b"KN_SHOP__ORDERS/KN_SUB_U/reply/227f28b1fca1fb05/7/1700000000"
    assert len(proof) == 32
    assert OURS.proven(value) == claim


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(None, id="none"),
        pytest.param(b"", id="empty"),
        pytest.param(b".", id="neither claim nor proof"),
        pytest.param(b"no proof", id="no proof"),
        pytest.param(Claims(b"another key").of(BEGIN, 7, 1), id="another installation's"),
        pytest.param(OURS.of(BEGIN, 7, 1)[:-1], id="cut"),
        pytest.param(OURS.of(BEGIN, 7, 1).replace(b"/7/", b"/8/"), id="of another event"),
        pytest.param(OURS.of(BEGIN, 7, 1).replace(b"reply", b"deadLetter"), id="of another stage"),
        pytest.param(OURS.of(b"x" * 2000, 7, 1), id="longer than any of ours"),
        pytest.param("é.é".encode(), id="not ASCII"),
    ],
)
def test_what_is_not_proven_is_no_claim(value: bytes | None) -> None:
    assert OURS.proven(value) == b""


@given(st.binary(max_size=80))
def test_no_bytes_of_a_stranger_are_a_claim_or_an_error(value: bytes) -> None:
    assert OURS.proven(value) == b""


def test_without_a_key_nothing_is_claimed_and_nothing_believed() -> None:
    assert (Claims().of(BEGIN, 7, 1), Claims().proven(OURS.of(BEGIN, 7, 1))) == (b"", b"")


def test_names_of_any_kind_stand_in_a_header_and_stay_apart() -> None:
    # An adopted stream is called what its author likes.
    value = OURS.of(beginning("Aufträge\udcff", "a", Stage.SUBSCRIBER, "http://x/?token=secret"), 1, 1)
    assert value.startswith(b"Auftr%C3%A4ge")
    assert all(0x21 <= each <= 0x7E for each in value)
    assert b"secret" not in value


def test_each_delivery_of_an_event_has_a_message_id_of_its_own() -> None:
    other = beginning("KN_SHOP__ORDERS", "KN_SUB_V", Stage.REPLY, "http://reply/")
    found = [b"", *(OURS.proven(OURS.of(*one)) for one in ((BEGIN, 7, 1), (BEGIN, 8, 1), (BEGIN, 7, 2), (other, 7, 1)))]
    assert len({msg_id("/s", "1", claim) for claim in found}) == 5
    assert [ascii_msg_id(b"/s", b"1", claim) for claim in found] == [msg_id("/s", "1", one).encode() for one in found]


def test_no_id_of_an_event_gives_the_message_id_of_a_delivery() -> None:
    claim = OURS.proven(OURS.of(BEGIN, 7, 1))
    assert msg_id("/s", "1", claim) != msg_id("/s", f"1:1{claim.decode()}")


@pytest.mark.parametrize(
    ("text", "told"),
    [("1", 1), ("254", 254), ("999", 999), ("007", 7), ("", 0), ("1000", 0), ("-1", 0), ("²", 0), ("1 ", 0), ("x", 0)],
)
def test_hops_are_a_number_of_at_most_three_digits_or_none(text: str, told: int) -> None:
    assert (count(text), hops({"headrace-hops": text})) == (told, told)


# ── the key ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEADRACE_DELIVERY_KEY", "HEADRACE_TOKEN", "HEADRACE_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)


def test_the_key_follows_from_the_shared_token_where_a_function_has_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_TOKEN", "sesame")
    assert claims().proven(Claims(bytes.fromhex(delivery_key(b"sesame", ""))).of(BEGIN, 1, 1)) != b""


def test_the_key_that_is_given_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    key = delivery_key(b"sesame", "shop")
    monkeypatch.setenv("HEADRACE_TOKEN", "sesame")
    monkeypatch.setenv("HEADRACE_DELIVERY_KEY", key)
    assert claims().proven(Claims(bytes.fromhex(key)).of(BEGIN, 1, 1)) != b""


def test_without_any_there_is_none() -> None:
    assert claims().of(BEGIN, 1, 1) == b""


@pytest.mark.parametrize("key", ["5" * 63, "5" * 65, "x" * 64, "hunter2"])
def test_what_is_no_key_is_refused_without_being_told(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("HEADRACE_DELIVERY_KEY", key)
    with pytest.raises(Misconfigured, match="64 hex digits") as refused:
        claims()
    assert refused.value.field == "HEADRACE_DELIVERY_KEY"
    assert key not in str(refused.value)


def test_each_namespace_of_functions_has_a_key_of_its_own() -> None:
    assert len({delivery_key(b"sesame", namespace) for namespace in ("", "shop", "knative-eventing")}) == 3

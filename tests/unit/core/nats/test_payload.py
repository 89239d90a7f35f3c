"""The room that a server's max_payload leaves for events."""

from __future__ import annotations

import pytest

from headrace.core.nats import payload


@pytest.mark.parametrize(
    ("max_payload", "problem", "narrow"),
    [
        pytest.param(4096, True, False, id="less than is kept free"),
        pytest.param(9215, True, False, id="no room for the headers of an event"),
        pytest.param(9216, False, True, id="small events only"),
        pytest.param(73727, False, True, id="one byte less than CloudEvents asks for"),
        pytest.param(73728, False, False, id="what CloudEvents asks for"),
        pytest.param(1048576, False, False, id="the server's default"),
    ],
)
def test_what_is_told_of_a_max_payload(max_payload: int, problem: bool, narrow: bool) -> None:
    assert bool(payload.problem(max_payload)) is problem
    assert bool(payload.narrow(max_payload)) is narrow


def test_the_words_name_the_numbers() -> None:
    assert "max_payload is 4096 bytes, of which 8192 are kept free" in payload.problem(4096)
    assert "events of more than 1808, headers included" in payload.narrow(10000)

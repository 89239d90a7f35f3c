"""People are told of a trouble that lasts, once for each reason, and not of one that the next attempt mends."""

from __future__ import annotations

import json

import pytest

from headrace.core.errors import HeadraceError, InvalidSpec, Refused, Unavailable
from headrace.io.process.trouble import MOST_REASONS, Trouble
from headrace_operator.kube.api import Conflict, passes, refusal
from tests.support.stopped_clock import StoppedClock


def test_what_is_over_before_it_lasts_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, trouble = StoppedClock(monkeypatch), Trouble()
    assert not trouble.note("away", 5.0)
    clock.now += 4.9
    assert not trouble.note("away", 5.0)
    assert not trouble.over()
    clock.now += 60.0
    assert not trouble.note("away", 5.0)


def test_what_lasts_is_told_once_for_each_reason_and_so_is_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, trouble = StoppedClock(monkeypatch), Trouble()
    trouble.note("away", 5.0)
    clock.now += 5.0
    assert [trouble.note(words, 5.0) for words in ("away", "refused", "away", "refused")] == [True, True, False, False]
    assert trouble.over()
    assert not trouble.over()


def test_what_somebody_has_to_mend_is_told_at_once() -> None:
    assert Trouble().note("not of this channel", 0.0)


def test_reasons_without_end_are_told_a_few_times() -> None:
    trouble = Trouble()
    assert sum(trouble.note(f"request {number}", 0.0) for number in range(1000)) == MOST_REASONS


@pytest.mark.parametrize(
    ("error", "passing"),
    [
        pytest.param(Unavailable("away"), True, id="nobody answers"),
        pytest.param(Conflict("changed", status=409), True, id="somebody was faster"),
        pytest.param(Refused("gone", status=404), True, id="it is gone"),
        pytest.param(Refused("forbidden", status=403), False, id="rights"),
        pytest.param(Refused("invalid", status=422), False, id="what is refused"),
        pytest.param(InvalidSpec("damaged", field="spec"), False, id="damaged"),
    ],
)
def test_what_may_pass_by_itself(error: HeadraceError, passing: bool) -> None:
    assert passes(error) is passing


def invalid(field: str, reason: str) -> str:
    causes = [{"reason": reason, "message": "…", "field": field}]
    return json.dumps({"message": 'orders is invalid: "x"', "details": {"causes": causes}})


def test_a_finalizer_for_what_is_being_deleted_is_a_conflict_and_what_else_is_invalid_is_not() -> None:
    late = refusal("PATCH", "/orders", 422, invalid("metadata.finalizers", "FieldValueForbidden"))
    assert isinstance(late, Conflict)
    assert not isinstance(refusal("PATCH", "/orders", 422, invalid("spec.stream", "FieldValueInvalid")), Conflict)

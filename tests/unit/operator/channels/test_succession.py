"""Of two processes of `reconcile` with different settings the later one counts, while it is heard of."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from headrace.core.channel.hook import Installation
from headrace_operator.channels.succession import SILENT_SECONDS, OutdatedAnswer, Succession
from tests.support.stopped_clock import StoppedClock

OLD, NEW = Installation("old", 100.0), Installation("new", 200.0)


@dataclass
class Heard:
    """What one that listens is told."""

    changes: int = 0
    succession: Succession = field(default_factory=Succession)

    def __post_init__(self) -> None:
        self.succession.listeners.append(self._count)

    def _count(self) -> None:
        self.changes += 1

    def counts(self, *told: Installation) -> list[bool]:
        return [self._hears(one) for one in told]

    def _hears(self, told: Installation) -> bool:
        with suppress(OutdatedAnswer):
            self.succession.hear(told)
            return True
        return False


def test_the_first_counts_and_so_do_all_of_its_settings() -> None:
    heard = Heard()
    assert heard.counts(OLD, Installation("old", 300.0), Installation("old", 50.0)) == [True, True, True]
    assert heard.changes == 0


def test_while_one_is_replaced_the_new_one_counts_and_the_old_one_does_not_whatever_their_order() -> None:
    heard = Heard()
    assert heard.counts(OLD, NEW, OLD, NEW, OLD) == [True, True, False, True, False]
    assert heard.changes == 1


def test_the_settings_of_before_count_again_when_a_process_was_started_with_them() -> None:
    heard = Heard()
    back = Installation("old", 300.0)
    assert heard.counts(OLD, NEW, back, NEW, back) == [True, True, True, False, True]
    assert heard.changes == 2


def test_who_was_started_later_and_is_not_heard_of_any_more_does_not_silence_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, heard = StoppedClock(monkeypatch), Heard()
    assert heard.counts(OLD, NEW) == [True, True]
    clock.now = SILENT_SECONDS
    assert heard.counts(OLD) == [False]
    clock.now = SILENT_SECONDS + 0.1
    assert heard.counts(OLD, OLD) == [True, True]
    assert heard.changes == 2


def test_a_reconcile_that_does_not_say_is_older_than_all_that_do() -> None:
    heard = Heard()
    assert heard.counts(Installation(), NEW, Installation()) == [True, True, False]
    assert heard.changes == 1


def test_an_answer_of_before_counts_until_the_new_one_is_heard_of() -> None:
    heard = Heard()
    heard.counts(OLD)
    heard.succession.check(OLD)
    heard.counts(NEW)
    heard.succession.check(NEW)
    with pytest.raises(OutdatedAnswer):
        heard.succession.check(OLD)

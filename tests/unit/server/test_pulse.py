"""Who is taken for hung, and who for held up together with the one who looks."""

from __future__ import annotations

import itertools

from headrace.server.pulse import LOOK_SECONDS, SILENT_SECONDS, Pulse


def test_a_worker_that_is_silent_for_long_has_stopped():
    pulse = Pulse(100.0)
    looks = [100.0 + number * LOOK_SECONDS for number in range(1, 8)]
    assert [pulse.stopped(now, heard=False) for now in looks] == [False] * 6 + [True]


def test_every_sign_gives_it_all_its_time_anew():
    pulse, now = Pulse(100.0), itertools.count(100.0, LOOK_SECONDS)
    assert not any(pulse.stopped(next(now), heard=number % 6 == 0) for number in range(100))


def test_who_looks_late_was_held_up_himself_and_blames_nobody():
    pulse = Pulse(100.0)
    assert not pulse.stopped(105.0, heard=False)
    assert not pulse.stopped(105.0 + 3600, heard=False)
    # And from then on it counts.
    assert [pulse.stopped(3705.0 + number * LOOK_SECONDS, heard=False) for number in range(1, 8)] == [False] * 6 + [
        True
    ]
    assert SILENT_SECONDS == 30

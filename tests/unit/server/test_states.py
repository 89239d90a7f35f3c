"""The table of a connection's states, every line of it."""

from __future__ import annotations

import pytest

from headrace.server.states import NEXT, ConnectionEvent, ConnectionState

# As somebody reads it who has not seen the code; `·` can't happen.
TABLE = """
          taken  lacking  begun  headed  ended  answered  early  turn  cut
free      due    kept     head   ·       ·      ·         held   ·     over
kept      due    kept     head   ·       ·      ·         held   ·     over
head      ·      ·        head   body    ·      ·         head   head  over
body      ·      ·        ·      ·       due    body      body   body  over
due       ·      ·        ·      ·       ·      free      piled  ·     over
piled     ·      ·        ·      ·       ·      held      piled  ·     over
held      ·      ·        ·      ·       ·      ·         held   free  over
over      ·      ·        ·      ·       ·      over      ·      over  over
"""
EVENTS, *LINES = [line.split() for line in TABLE.strip().splitlines()]


def test_the_table_is_the_one_that_is_written_here() -> None:
    read = {
        ConnectionState(line[0]): {
            ConnectionEvent(event): ConnectionState(then)
            for event, then in zip(EVENTS, line[1:], strict=True)
            if then != "·"
        }
        for line in LINES
    }
    assert read == NEXT


def test_every_state_and_every_event_has_its_place() -> None:
    assert set(NEXT) == set(ConnectionState)
    assert {event for after in NEXT.values() for event in after} == set(ConnectionEvent)


@pytest.mark.parametrize("state", ConnectionState)
def test_from_every_state_a_connection_can_end_and_from_all_but_that_it_can_be_free_again(
    state: ConnectionState,
) -> None:
    assert NEXT[state][ConnectionEvent.CUT] is ConnectionState.OVER
    assert (ConnectionState.FREE in reachable(state)) is (state is not ConnectionState.OVER)


def reachable(state: ConnectionState) -> set[ConnectionState]:
    found: set[ConnectionState] = set()
    new = {state}
    while new:
        found |= new
        new = {then for one in new for then in NEXT[one].values()} - found
    return found


def test_only_the_short_way_takes_or_keeps_and_only_where_nothing_else_has_begun() -> None:
    assert {
        state for state in ConnectionState if NEXT[state].keys() & {ConnectionEvent.TAKEN, ConnectionEvent.LACKING}
    } == {ConnectionState.FREE, ConnectionState.KEPT}

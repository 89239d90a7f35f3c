"""A large JSON text that is read beside a loop does not keep the loop from going on."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from itertools import repeat

from headrace.core.json_text import given

TEXT = json.dumps(list(repeat({"metadata": {"name": "orders", "labels": {"app": "shop"}}}, 30_000)))


def turns_during(work: Callable[[], object]) -> int:
    """How often another thread had its turn."""
    turns, over = 0, False

    def other() -> None:
        nonlocal turns
        while not over:
            turns += 1
            time.sleep(0)

    thread, before = threading.Thread(target=other), sys.getswitchinterval()
    sys.setswitchinterval(0.0001)
    try:
        thread.start()
        began = turns
        work()
        return turns - began
    finally:
        over = True
        sys.setswitchinterval(before)
        thread.join()


def test_while_a_large_text_is_read_others_have_their_turns() -> None:
    # Several times, since a busy machine gives the other thread no turn, or the parser a long break.
    held = min(turns_during(lambda: json.loads(TEXT)) for _ in range(5))
    let_in = max(turns_during(lambda: json.loads(TEXT, object_hook=given)) for _ in range(5))

    assert let_in > 5 * max(held, 1)

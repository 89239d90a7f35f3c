"""For all tests: no property is timed, and no test leaves its way of logging to the next.

A busy machine once failed a property that took 381 ms, and 17 ms when asked again. A verb of the CLI, run in the
process of the tests, has only errors logged: what a later test waits for would not be told.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    before = structlog.get_config()
    yield
    structlog.configure(**before)

"""The demands of Python's and urllib3's own TLS contexts since Python 3.13, made on every Python.

A certificate that meets them here is taken there, too.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any

import pytest
import urllib3.connection

_FLAGS = ssl.VERIFY_X509_PARTIAL_CHAIN | ssl.VERIFY_X509_STRICT


@pytest.fixture
def as_since_3_13(monkeypatch: pytest.MonkeyPatch) -> None:
    """A context that a library makes by itself refuses what is not by the book."""

    def strict(make: Callable[..., ssl.SSLContext]) -> Callable[..., ssl.SSLContext]:
        def made(*given: Any, **named: Any) -> ssl.SSLContext:
            context = make(*given, **named)
            context.verify_flags |= _FLAGS
            return context

        return made

    monkeypatch.setattr(ssl, "create_default_context", strict(ssl.create_default_context))
    own = urllib3.connection.create_urllib3_context
    monkeypatch.setattr(urllib3.connection, "create_urllib3_context", strict(own))

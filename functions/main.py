"""What functions-framework loads: `functions-framework --asgi --source functions/main.py --target receive`.

Imports no host itself. The framework demands plain functions, and hands whatever it can't render back to its own
server as an ASGI callable: so each answers with the application itself, which then gets the raw request.
"""

from __future__ import annotations

from headrace.host import App
from headrace.host.entry import shared


async def receive(_request: object) -> App:
    return shared("receive")


async def forward(_request: object) -> App:
    return shared("forward")


async def reconcile(_request: object) -> App:
    return shared("reconcile")

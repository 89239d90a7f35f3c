"""The rows of `receive` as Knative's flags have it: with tokens, and with an EventType for each kind of events.

Each has a `receive` of its own with the security document that asks for it; sender and traffic are those of `receive`.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.ingress import served
from bench.row import Row
from bench.sample import Sample
from bench.stage import NAMESPACE, STORED, Stage, load
from headrace.core import names
from headrace.core.security.document import KEY, SecurityDocument
from headrace.core.security.flags import DefaultMode, Flags
from tests.support.security.issuing import TokenIssuer

WARM_UP_EVENTS = 500
_KNOWN = TokenIssuer().known()
TYPES = SecurityDocument(1, Flags(auto_create_types=True))
TOKENS = SecurityDocument(
    1, Flags(oidc=True, default_mode=DefaultMode.ALLOW_ALL), _KNOWN.url, _KNOWN.keys, _KNOWN.algorithms
)


def rows() -> list[Row]:
    return [
        Row(
            "receive-types", "the same as `receive`, and the kinds of events are noted for EventTypes", _types, "floor"
        ),
        Row(
            "receive-tokens", "the same as `receive`, each event with a token, which is verified once", _tokens, "floor"
        ),
    ]


def _types(stage: Stage, events: int) -> Sample:
    return _measured(stage, events, TYPES)


def _tokens(stage: Stage, events: int) -> Sample:
    token = TokenIssuer().token(now=time.time(), aud=[names.audience(NAMESPACE, STORED)])
    return _measured(stage, events, TOKENS, "--authorization", f"Bearer {token}")


def _measured(stage: Stage, events: int, document: SecurityDocument, *more: str) -> Sample:
    with TemporaryDirectory(dir=stage.directory) as mount:
        (Path(mount) / KEY).write_bytes(document.to_json())
        place = {
            "HEADRACE_SECURITY_DIR": mount,
            "HEADRACE_SECURITY_PLACE": NAMESPACE,
            "HEADRACE_DELIVERY_KEY": "00" * 32,
        }
        receive = replace(stage, environment={**stage.environment, **place}).another_receive()
        try:
            url = f"{receive.wait_until_ready().url}/{NAMESPACE}/{STORED}"
            load(url, WARM_UP_EVENTS, more=more)
            return served(stage, receive, url, events, connections=32, arguments=more)
        finally:
            receive.stop()

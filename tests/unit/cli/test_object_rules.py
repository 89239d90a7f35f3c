"""The doctor's findings from the objects of channels."""

from __future__ import annotations

from typing import Any

import pytest

from headrace_cli.health.finding import Severity
from headrace_cli.health.object_rules import of_objects

WORDS = "NATS refused to change KN_SHOP__ORDERS: replicas > 1 not supported"
REFUSED = {"type": "StreamReady", "status": "False", "reason": "StreamUpdateRefused", "message": WORDS}
READY = {"type": "Ready", "status": "True"}
UNREADY = {**REFUSED, "type": "Ready"}
NAMED = {"type": "NamesAllowed", "status": "False", "reason": "NameRefused", "message": "overrideName is 'X'"}
TEMPLATE = {"type": "TemplateObeyed", "status": "False", "severity": "Info", "reason": "FieldsNotObeyed"}
WINDOW = {"type": "AckWindowsOpen", "status": "False", "severity": "Info", "reason": "AckWindowFull"}


def channel(*conditions: dict[str, str], subscribers: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    """Args:
    subscribers: why each is not served.
    """
    status: dict[str, Any] = {"observedGeneration": 2, "conditions": [*conditions]} if conditions else {}
    if subscribers:
        told = enumerate(subscribers)
        status["subscribers"] = [{"uid": str(each), "ready": "False", "message": words} for each, words in told]
    return {"metadata": {"namespace": "shop", "name": "orders", "generation": 2}, "status": status, **more}


STARTING = {"type": "FunctionsReady", "status": "Unknown", "reason": "FunctionsStarting"}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        pytest.param(channel(READY), [], id="all is well"),
        pytest.param(
            channel(UNREADY, REFUSED),
            [("PROBLEM", "condition", f"StreamReady is False, StreamUpdateRefused: {WORDS}")],
            id="an edit that NATS refuses is told once, in its words",
        ),
        pytest.param(
            channel(UNREADY, TEMPLATE),
            [
                ("PROBLEM", "condition", f"Ready is False, StreamUpdateRefused: {WORDS}"),
                ("RISK", "condition", "TemplateObeyed is False, FieldsNotObeyed"),
            ],
            id="the sum counts where nothing else tells why",
        ),
        pytest.param(
            channel({"type": "Ready", "status": "Unknown"}, STARTING),
            [("RISK", "condition", "FunctionsReady is Unknown, FunctionsStarting")],
            id="what is not known yet",
        ),
        pytest.param(channel(READY, WINDOW), [], id="what NATS itself is asked for is left to other rules"),
        pytest.param(
            channel(
                {**NAMED, "type": "Ready"},
                NAMED,
                {"type": "StreamReady", "status": "False", "reason": "NameRefused", "message": "see NamesAllowed"},
                {"type": "ConsumersReady", "status": "False", "reason": "StreamNotReady", "message": "they wait"},
                {"type": "Addressable", "status": "False", "reason": "SubjectNotCaptured", "message": "no stream"},
                subscribers=("see NamesAllowed", "see NamesAllowed", "its address is refused"),
            ),
            [
                ("PROBLEM", "condition", "NamesAllowed is False, NameRefused: overrideName is 'X'"),
                ("PROBLEM", "subscriber", "its subscriber 2 is not served: its address is refused"),
            ],
            id="what follows from another condition is not told again",
        ),
        pytest.param(
            channel({"type": "Addressable", "status": "False", "reason": "SubjectNotCaptured", "message": "no stream"}),
            [("PROBLEM", "condition", "Addressable is False, SubjectNotCaptured: no stream")],
            id="unless it stands alone",
        ),
        pytest.param(channel(), [("PROBLEM", "not-reconciled", "nobody has reconciled it yet")], id="no status"),
        pytest.param(
            channel(READY, error="no answer"),
            [("PROBLEM", "not-reconciled", "reconciling it fails: no answer")],
            id="reconciling fails",
        ),
        pytest.param(
            {**channel(READY), "metadata": {"namespace": "shop", "name": "orders", "generation": 3}},
            [("RISK", "edit-waits", "the newest edit is not taken up yet: the conditions are of the one before")],
            id="an edit that is not taken up",
        ),
        pytest.param(
            channel(READY)
            | {
                "spec": {"subscribers": [{"uid": "u", "name": "billing"}]},
                "status": {
                    "observedGeneration": 2,
                    "conditions": [READY],
                    "subscribers": [
                        {"uid": "u", "ready": "False", "message": "no such host"},
                        {"uid": "v", "ready": "True"},
                        {"uid": "w", "ready": "Unknown", "message": "not ready yet"},
                    ],
                },
            },
            [
                ("PROBLEM", "subscriber", "its subscriber billing is not served: no such host"),
                ("RISK", "subscriber", "whether its subscriber w is served is not known: not ready yet"),
            ],
            id="a subscriber",
        ),
    ],
)
def test_findings(body: dict[str, Any], told: list[tuple[str, str, str]]) -> None:
    found = list(of_objects([body], nats_asked=True))
    assert [(each.severity.name, each.code, each.what) for each in found] == told
    assert {each.where for each in found} <= {"shop/orders"}


def test_of_a_cluster_alone_every_condition_counts() -> None:
    (found,) = of_objects([channel(READY, WINDOW)], nats_asked=False)
    assert (found.severity, found.what) == (Severity.RISK, "AckWindowsOpen is False, AckWindowFull")

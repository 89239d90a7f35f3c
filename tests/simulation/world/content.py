"""The events of a history: what a producer sends, and what a subscriber answers with. All of it follows from an id."""

from __future__ import annotations

import base64
import json

from tests.simulation.plan import EventPlan

REPLY = "r-"
SOURCE = "/producers"


def body(id: str, size: int) -> bytes:
    """As many bytes as asked for, in which the id stands again and again."""
    word = f"{id};".encode()
    return (word * (size // len(word) + 1))[:size]


def sent(event: EventPlan) -> tuple[dict[str, str], bytes]:
    """Headers and body of a producer's POST."""
    data = body(event.id, event.size)
    attributes = {"specversion": "1.0", "id": event.id, "source": SOURCE, "type": "simulated"}
    if event.key is not None:
        attributes["partitionkey"] = event.key
    if event.structured:
        content = {**attributes, "data_base64": base64.b64encode(data).decode()}
        return {"content-type": "application/cloudevents+json"}, json.dumps(content).encode()
    return {f"ce-{name}": value for name, value in attributes.items()}, data


def reply(id: str) -> tuple[dict[str, str], bytes]:
    """Headers and body of the event with which a subscriber answers this one."""
    attributes = {"specversion": "1.0", "id": REPLY + id, "source": "/subscribers", "type": "reply"}
    return {f"ce-{name}": value for name, value in attributes.items()}, body(REPLY + id, 20)

"""The copy of all objects of one kind, and which of them belong there."""

from __future__ import annotations

from typing import Any

from headrace_operator.kube.kinds import Kind
from headrace_operator.kube.watch import Cache

SERVICE = Kind("v1", "Service", "services")


def service(version: int, owner: str = "ours") -> dict[str, Any]:
    return {"metadata": {"name": "orders", "namespace": "shop", "resourceVersion": str(version), "owner": owner}}


def cache() -> tuple[Cache, list[tuple[str, str]]]:
    """One that keeps what is ours, and the versions that its listeners were told."""
    found, told = Cache(SERVICE), list[tuple[str, str]]()
    found.keeps = lambda body: body["metadata"]["owner"] == "ours"
    found.listeners.append(lambda old, new: told.append((version(old), version(new))))
    return found, told


def version(body: dict[str, Any] | None) -> str:
    return body["metadata"]["resourceVersion"] if body else ""


def test_what_does_not_belong_there_is_as_if_it_were_not_there() -> None:
    found, told = cache()
    found.replace([service(1, "theirs")], "1")
    found.put(service(2, "theirs"))
    found.note(service(3, "theirs"))
    assert found.listed
    assert list(found) == []
    assert told == []


def test_what_comes_to_belong_there_is_new_and_what_ceases_to_is_gone() -> None:
    found, told = cache()
    found.put(service(1, "theirs"))
    found.put(service(2))
    found.put(service(3, "theirs"))
    # Older than what is known, so it says nothing.
    found.put(service(4))
    found.put(service(3, "theirs"))
    assert told == [("", "2"), ("2", ""), ("", "4")]
    assert found.get(("shop", "orders")) is not None

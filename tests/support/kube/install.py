"""The installation as objects: the documents of files, their places in the API, and blocks of docs/install.md."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[3]
INFRA = ROOT / "infra"
DOCUMENT = ROOT / "docs" / "install.md"
SYSTEM = "knative-eventing"
_BLOCK = re.compile(r"^```(?P<kind>\w+) ?(?P<about>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_PLURALS = {"NatsJetStreamChannel": "natsjetstreamchannels", "NetworkPolicy": "networkpolicies"}


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: `section` is the heading above it, `about` what stands behind its language."""

    section: str
    kind: str
    about: str
    text: str


def blocks(document: Path = DOCUMENT) -> Iterator[Block]:
    """All of a document, in order."""
    for part in re.split(r"^## ", document.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        section = part.splitlines()[0]
        for found in _BLOCK.finditer(part):
            yield Block(section, found["kind"], found["about"], found["text"])


def documents(text: str) -> list[dict[str, Any]]:
    """The objects of a YAML text."""
    return [one for one in yaml.safe_load_all(text) if one]


def in_file(path: Path) -> list[dict[str, Any]]:
    """The objects of a file."""
    return documents(path.read_text(encoding="utf-8"))


def by_name(objects: Iterable[dict[str, Any]]) -> dict[tuple[str, str, str], dict[str, Any]]:
    """By kind, namespace and name; two of the same are an error."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for one in objects:
        key = (
            f"{one['apiVersion']} {one['kind']}",
            one["metadata"].get("namespace", ""),
            one["metadata"]["name"],
        )
        assert key not in found, f"{key} is there twice"
        found[key] = one
    return found


def path_of(body: dict[str, Any]) -> str:
    """Where the object is in the API."""
    root = "/api/v1" if body["apiVersion"] == "v1" else f"/apis/{body['apiVersion']}"
    namespace = body["metadata"].get("namespace")
    plural = _PLURALS.get(body["kind"], f"{body['kind'].lower()}s")
    return f"{root}/{f'namespaces/{namespace}/' if namespace else ''}{plural}/{body['metadata']['name']}"


def container(body: dict[str, Any]) -> dict[str, Any]:
    """The only container of what has a pod template."""
    (found,) = body["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def variables(body: dict[str, Any]) -> dict[str, str]:
    """Its environment, as far as it is said in plain."""
    return {one["name"]: one["value"] for one in container(body)["env"] if "value" in one}

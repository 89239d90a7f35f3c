"""Objects in YAML, as others have written them and as a cluster of one small node takes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

Manifest = dict[str, Any]
# Ten times as fast, where PyYAML was built with it, as its wheels are.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# A node of two processors has room for these; Knative's own requests would fill it. With less, pods of ours would get
# ten times the processor time of the activator that they wait for.
_REQUESTED = {"cpu": "25m", "memory": "20Mi"}


def read(paths: Iterable[Path]) -> Iterator[Manifest]:
    """The objects of these files, and of the files in these folders, sorted by name."""
    for path in paths:
        for file in sorted(path.glob("*.yaml")) if path.is_dir() else [path]:
            yield from (each for each in yaml.load_all(file.read_bytes(), _Loader) if each)


def text(manifests: Iterable[Manifest]) -> str:
    """As kubectl takes them."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(manifests)})


def mapped(value: Any, change: Callable[[str], str]) -> Any:
    """The same with each string changed."""
    match value:
        case str():
            return change(value)
        case list():
            return [mapped(each, change) for each in value]
        case dict():
            return {key: mapped(each, change) for key, each in value.items()}
        case _:
            return value


def small(manifest: Manifest) -> Manifest:
    """A Deployment that asks for next to nothing; whatever else, as it is."""
    if manifest["kind"] == "Deployment":
        for container in manifest["spec"]["template"]["spec"]["containers"]:
            container.setdefault("resources", {})["requests"] = dict(_REQUESTED)
    return manifest


def with_data(manifest: Manifest, data: Mapping[str, Mapping[str, str]]) -> Manifest:
    """A ConfigMap that is named in `data` with these values, too; whatever else, as it is."""
    if manifest["kind"] == "ConfigMap" and (more := data.get(manifest["metadata"]["name"])):
        manifest["data"] = {**(manifest.get("data") or {}), **more}
    return manifest

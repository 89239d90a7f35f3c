"""OCI archives of single programs that need no libraries, written without a container engine.

A layer is not compressed: it is read once, on this machine, and a start would have to wait for the unpacking.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_NOBODY = "65532"


@dataclass(frozen=True, slots=True)
class Image:
    """A program and its files, which become an image.

    Attributes:
        files: path in the image, by the file's path here.
        user: number of the one that it runs as, unless the pod says otherwise.
    """

    name: str
    files: Mapping[Path, str]
    entrypoint: Sequence[str]
    user: str = _NOBODY
    environment: Sequence[str] = field(default=("PATH=/bin",))

    @property
    def key(self) -> str:
        """Changes with what is in it, as far as sizes and times of files tell."""
        seen = [(str(path), to, path.stat().st_size, path.stat().st_mtime_ns) for path, to in self.files.items()]
        recipe = (self.name, seen, tuple(self.entrypoint), self.user, tuple(self.environment))
        return hashlib.sha256(repr(recipe).encode()).hexdigest()[:16]


def write(image: Image, target: Path) -> None:
    """Write it. A file of that name is replaced."""
    layer = _layer(image)
    config = json.dumps(_config(image, _digest(layer))).encode()
    manifest = json.dumps(_manifest(config, layer)).encode()
    partial = target.with_name(f".{target.name}.partial")
    with tarfile.open(partial, "w") as archive:
        _add(archive, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        _add(archive, "index.json", json.dumps(_index(image, manifest)).encode())
        for blob in (config, manifest, layer):
            _add(archive, f"blobs/{_digest(blob).replace(':', '/')}", blob)
    partial.replace(target)


def _layer(image: Image) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as layer:
        temporary = tarfile.TarInfo("tmp")
        temporary.type, temporary.mode = tarfile.DIRTYPE, 0o1777
        layer.addfile(temporary)
        for path, to in image.files.items():
            _add(layer, to.lstrip("/"), path.read_bytes(), mode=0o755)
    return written.getvalue()


def _config(image: Image, layer: str) -> Mapping[str, object]:
    runs = {"User": image.user, "Env": list(image.environment), "Entrypoint": list(image.entrypoint), "WorkingDir": "/"}
    root = {"type": "layers", "diff_ids": [layer]}
    return {"architecture": _architecture(), "os": "linux", "config": runs, "rootfs": root}


def _manifest(config: bytes, layer: bytes) -> Mapping[str, object]:
    described = {"schemaVersion": 2, "mediaType": _MANIFEST}
    return {**described, "config": _descriptor(_CONFIG, config), "layers": [_descriptor(_LAYER, layer)]}


def _index(image: Image, manifest: bytes) -> Mapping[str, object]:
    names = {"io.containerd.image.name": image.name, "org.opencontainers.image.ref.name": image.name}
    return {"schemaVersion": 2, "manifests": [{**_descriptor(_MANIFEST, manifest), "annotations": names}]}


def _descriptor(kind: str, blob: bytes) -> Mapping[str, object]:
    return {"mediaType": kind, "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _architecture() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def _add(archive: tarfile.TarFile, name: str, content: bytes, *, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))

"""An image registry in memory on the loopback, an image to build upon, and what was pushed."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import tarfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

from infra.programs import tool_binaries
from tests.support.nats.nats_server import free_port

START_SECONDS = 90.0
_IMAGE = "application/vnd.oci.image.manifest.v1+json"
_INDEX = "application/vnd.oci.image.index.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


class Registry:
    """Use it as a context manager; blocking methods.

    Attributes:
        place: `localhost:PORT`, with which references of images begin.
    """

    def __init__(self, log: Path) -> None:
        self._port = free_port()
        self._log = log
        self.place = f"localhost:{self._port}"

    def __enter__(self) -> Registry:
        program = tool_binaries.found(tool_binaries.REGISTRY)["registry"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen([program, "-port", str(self._port)], stdout=log, stderr=log)
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self._call("GET", "")
                return self
            except (urllib.error.URLError, OSError):
                if time.monotonic() > deadline:
                    self.__exit__(None, None, None)
                    raise
                time.sleep(0.05)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    def push_an_empty_one(self, name: str) -> str:
        """An image with nothing in it, for those who build upon one; its reference."""
        buffer = io.BytesIO()
        tarfile.open(fileobj=buffer, mode="w").close()
        content = gzip.compress(buffer.getvalue())
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [_digest(buffer.getvalue())]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": _IMAGE,
            "config": self._blob(name, json.dumps(config).encode(), _CONFIG),
            "layers": [self._blob(name, content, _LAYER)],
        }
        self._call("PUT", f"{name}/manifests/latest", json.dumps(manifest).encode(), {"content-type": _IMAGE})
        return f"{self.place}/{name}:latest"

    def config(self, name: str, architecture: str = "amd64") -> dict[str, Any]:
        """How the image `latest` is run, on one architecture."""
        return self._json(f"{name}/blobs/{self._manifest(name, architecture)['config']['digest']}")

    def unpack(self, name: str, target: Path, architecture: str = "amd64") -> None:
        """Its layers, one over the other, as a container would see them."""
        for layer in self._manifest(name, architecture)["layers"]:
            content = self._call("GET", f"{name}/blobs/{layer['digest']}")
            with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as files:
                for one in files:
                    # As `/func/…`: relative, lest it be refused as outside.
                    one.name = one.name.lstrip("/")
                    files.extract(one, target, set_attrs=False, filter="fully_trusted")

    def _manifest(self, name: str, architecture: str) -> dict[str, Any]:
        index = self._json(f"{name}/manifests/latest", _INDEX)
        (found,) = [one for one in index["manifests"] if one["platform"]["architecture"] == architecture]
        return self._json(f"{name}/manifests/{found['digest']}", _IMAGE)

    def _json(self, path: str, accept: str = "*/*") -> dict[str, Any]:
        found = json.loads(self._call("GET", path, headers={"accept": accept}))
        assert isinstance(found, dict)
        return found

    def _blob(self, name: str, content: bytes, kind: str) -> dict[str, Any]:
        digest = _digest(content)
        self._call("POST", f"{name}/blobs/uploads/?digest={digest}", content)
        return {"mediaType": kind, "digest": digest, "size": len(content)}

    def _call(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> bytes:
        url = f"http://{self.place}/v2/{path}"
        request = urllib.request.Request(url, body, headers or {}, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            content: bytes = answer.read()
            return content


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"

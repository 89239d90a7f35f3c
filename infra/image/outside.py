"""A build's way from this machine to the packages that it installs: proxies, package indexes, and trusted CAs.

Only the commands of the build see it: it is in no layer, no setting and no history of the image.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

# Where Debian has them, and so the base image: mounted over its own.
AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
_BUNDLES = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


def arguments() -> Iterator[str]:
    """What the Containerfile takes as arguments of the build. buildah hands on proxies by itself."""
    # uv looks at no file of the system's unless it is named.
    yield from (f"{name}={AUTHORITIES}" for name in ("SSL_CERT_FILE", "PIP_CERT"))
    index = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("UV_INDEX_URL")
    for name, value in (("PIP_INDEX_URL", os.environ.get("PIP_INDEX_URL")), ("UV_DEFAULT_INDEX", index)):
        if value:
            yield f"{name}={value}"


def volumes() -> Iterator[str]:
    """Files of this machine that they see, as `--volume` takes them."""
    told = os.environ.get
    home = Path(told("XDG_CONFIG_HOME") or Path.home() / ".config")
    pip = (told("PIP_CONFIG_FILE"), home / "pip/pip.conf", Path.home() / ".pip/pip.conf", "/etc/pip.conf")
    uv = (told("UV_CONFIG_FILE"), home / "uv/uv.toml", "/etc/uv/uv.toml")
    authorities = (*map(told, _BUNDLES), AUTHORITIES)
    for places, target in ((authorities, AUTHORITIES), (pip, "/etc/pip.conf"), (uv, "/etc/uv/uv.toml")):
        if (place := next((each for each in places if each and Path(each).is_file()), None)) is not None:
            yield f"{place}:{target}:ro"

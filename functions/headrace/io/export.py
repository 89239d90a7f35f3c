"""The HTTP session that takes spans to a collector: `requests`, as the exporter has by default, with our TLS contexts.

It is imported with the exporter only, which brings `requests`.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import requests
from requests.adapters import HTTPAdapter

from headrace.core import trust
from headrace.io.process import tls
from headrace.io.process.tls import Stamp


def session() -> requests.Session:
    made = requests.Session()
    made.mount("https://", _Adapter())
    return made


class _Adapter(HTTPAdapter):
    """Gives urllib3 our TLS contexts, made of the files that the SDK's variables name.

    A changed file brings a new context, and the new context brings new connections.
    """

    _made: tuple[tuple[Stamp, ...], ssl.SSLContext] | None = None

    def build_connection_pool_key_attributes(
        self, request: requests.PreparedRequest, verify: Any, cert: Any = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        host, options = super().build_connection_pool_key_attributes(request, verify, cert)
        if verify is not False:
            options["ssl_context"] = self._context(verify, cert)
        return host, options

    def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
        """Checks that the files exist, and hides them from urllib3, which would load them by its own rules."""
        super().cert_verify(conn, url, verify, cert)
        if verify is not False:
            conn.ca_certs = conn.ca_cert_dir = None

    def _context(self, verify: bool | str | None, cert: str | tuple[str, str] | None) -> ssl.SSLContext:
        named = (verify, *((cert,) if isinstance(cert, str) else cert or ()))
        stamps = (*(tls.stamp(path) for path in named if isinstance(path, str)), *tls.system_stamps())
        if self._made is None or self._made[0] != stamps:
            self._made = stamps, _context(verify)
        return self._made[1]


def _context(verify: bool | str | None) -> ssl.SSLContext:
    """Raises OSError, as the exporter expects it: the file can't be read."""
    if not isinstance(verify, str):
        made = tls.of_system()
    elif Path(verify).is_dir():
        made = trust.context()
        made.load_verify_locations(capath=verify)
    else:
        try:
            made = trust.context(Path(verify).read_bytes())
        except ValueError as error:
            raise OSError(f"{verify}: {error}") from error
    # As urllib3 and Go have it.
    made.hostname_checks_common_name = False
    return made

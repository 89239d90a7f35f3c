"""TLS files for a nats-server on the loopback, and for its clients; made anew, by a CA as people make them."""

from __future__ import annotations

import time
from pathlib import Path

from tests.support.http.authorities import Authority, as_openssl_makes_it
from tests.support.nats.nats_server import START_SECONDS, NatsServer


class Certificates:
    """A CA, a certificate of the server and one of a client, in a directory.

    Attributes:
        ca, client_cert, client_key: paths of PEM files.
        ca_pem: what the first of them holds.
    """

    def __init__(self, directory: Path, authority: Authority | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        authority = authority or as_openssl_makes_it()
        server, client = authority.issue("127.0.0.1", "localhost"), authority.issue("client.example")
        self.ca = str(directory / "ca.pem")
        self.client_cert, self.client_key = str(directory / "client.pem"), str(directory / "client.key")
        self._cert, self._key = str(directory / "server.pem"), str(directory / "server.key")
        self.ca_pem = authority.pem
        Path(self.ca).write_bytes(self.ca_pem)
        for issued, cert, key in (
            (server, self._cert, self._key),
            (client, self.client_cert, self.client_key),
        ):
            Path(cert).write_bytes(issued.shown)
            Path(key).write_bytes(issued.key_pem)

    def config(self, *, verify: bool = False, first: bool = False) -> str:
        """The lines of nats-server's configuration.

        Args:
            verify: clients must show a certificate.
            first: TLS before INFO.
        """
        return (
            f'tls {{ cert_file: "{self._cert}", key_file: "{self._key}", ca_file: "{self.ca}", '
            f"verify: {str(verify).lower()}, handshake_first: {str(first).lower()} }}"
        )


class SilentNatsServer(NatsServer):
    """Says nothing to those who come without TLS: that it serves is to be seen in its log only. Start it once."""

    def _wait_until_it_serves(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while "Server is ready" not in self._log.read_text():
            assert time.monotonic() < deadline, f"nats-server did not start:\n{self._log.read_text()[-4000:]}"
            time.sleep(0.01)

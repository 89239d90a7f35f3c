"""TLS files for a nats-server on the loopback, and for its clients; made anew by `trustme`."""

from __future__ import annotations

import time
from pathlib import Path

import trustme

from tests.support.nats_server import START_SECONDS, NatsServer


class Certificates:
    """A CA, a certificate of the server and one of a client, in a directory.

    Attributes:
        ca, client_cert, client_key: paths of PEM files.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        authority = trustme.CA()
        server, client = authority.issue_cert("127.0.0.1", "localhost"), authority.issue_cert("client.example")
        self.ca = str(directory / "ca.pem")
        self.client_cert, self.client_key = str(directory / "client.pem"), str(directory / "client.key")
        self._cert, self._key = str(directory / "server.pem"), str(directory / "server.key")
        authority.cert_pem.write_to_path(self.ca)
        for issued, cert, key in (
            (server, self._cert, self._key),
            (client, self.client_cert, self.client_key),
        ):
            issued.cert_chain_pems[0].write_to_path(cert)
            issued.private_key_pem.write_to_path(key)

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

"""What `receive` asks of senders, as the security document has it at this moment."""

from __future__ import annotations

from headrace.core.security.document import SecurityDocument
from headrace.core.security.issuer import Issuer
from headrace.io.process import clock
from headrace.io.process.security import Security
from headrace.receive.gate import Gate


class Gatekeeper:
    """Keeps a gate.

    Attributes:
        gate: changed in place, with the document.
    """

    def __init__(self, security: Security) -> None:
        self.gate = Gate()
        self._issuer: Issuer | None = None
        security.on_change.append(self._obey)
        self._obey(security.now())

    def _obey(self, document: SecurityDocument) -> None:
        issuer = Issuer(document.issuer, document.algorithms, document.keys) if document.flags.oidc else None
        if issuer is None:
            self._issuer = self.gate.tokens = self.gate.senders = None
            return
        # On demand: the modules take as long to import as all of `receive`, which starts from zero.
        from headrace.core.security.senders import Senders
        from headrace.core.security.token import Tokens

        # A policy changes more often than an issuer, and verified tokens stay verified.
        if issuer != self._issuer:
            self.gate.tokens = Tokens(issuer, clock.wall)
            self._issuer = issuer
        self.gate.senders = Senders(document)

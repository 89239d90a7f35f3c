"""What the sender of an event has to show, as it is at this moment.

`headrace.host` changes it when the security document changes; both ways of an event look at it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Imported only where OIDC is on.
    from headrace.core.security.senders import Senders
    from headrace.core.security.token import Tokens


@dataclass(slots=True)
class Gate:
    """The gate; nobody has to show anything at a new one.

    Attributes:
        tokens: judges the tokens that events come with; None: they need none.
        senders: judges what their senders may send; never there without tokens.
    """

    tokens: Tokens | None = None
    senders: Senders | None = None

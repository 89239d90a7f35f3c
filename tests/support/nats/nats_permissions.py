"""A nats-server with the account template of `infra/nats`, for tests that have to do with no more than that."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.nats.nats_server import NatsServer

TEMPLATE = Path(__file__).parents[3] / "infra" / "nats" / "accounts.conf"
USERS = ("receive", "forward", "reconcile", "operator", "spark-reader", "admin")
PASSWORD = "of-the-tests"
_USER = re.compile(r"^\s*user: (\S+)$")
_SUBJECT = re.compile(r'^\s*"(\S+)"$')
_DIRECTION = re.compile(r"^\s*(publish|subscribe) \{$")


class PermittedServer(NatsServer):
    """Whoever says no name may do everything, which its `url` is for."""

    def __init__(self, directory: Path, *, template: str | None = None, config: str = "") -> None:
        """Args:
        template: in place of the committed one.
        """
        variables = "".join(f"HEADRACE_{_variable(user)}_PASSWORD: {PASSWORD}\n" for user in USERS)
        text = TEMPLATE.read_text(encoding="utf-8") if template is None else template
        super().__init__(directory, config=f"{variables}{text}\nno_auth_user: admin\n{config}")

    def url_of(self, user: str) -> str:
        return f"nats://{user}:{PASSWORD}@127.0.0.1:{self.port}"


def inbox_of(user: str) -> str:
    """The NATS_INBOX_PREFIX that goes with a user."""
    return f"_INBOX_{user}"


def lines() -> list[tuple[str, str, str]]:
    """Every permission of the template: user, publish or subscribe, subject."""
    found, user, direction = [], "", ""
    for line in TEMPLATE.read_text(encoding="utf-8").splitlines():
        if match := _USER.match(line):
            user = match[1]
        elif match := _DIRECTION.match(line):
            direction = match[1]
        elif match := _SUBJECT.match(line):
            found.append((user, direction, match[1]))
    return found


def without(permission: tuple[str, str, str]) -> str:
    """The template less one permission; what nobody asks for stands in its place, since no list may be empty."""
    kept, user, direction = [], "", ""
    for line in TEMPLATE.read_text(encoding="utf-8").splitlines():
        if match := _USER.match(line):
            user = match[1]
        elif match := _DIRECTION.match(line):
            direction = match[1]
        elif (match := _SUBJECT.match(line)) and (user, direction, match[1]) == permission:
            line = '"nobody.asks.for.this"'
        kept.append(line)
    return "\n".join(kept)


def _variable(user: str) -> str:
    return user.upper().replace("-", "_")

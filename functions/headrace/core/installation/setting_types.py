"""The common ground of all settings: the types of their values, and how they are built.

`headrace.io.process.environment` fills settings from environment variables, named in each field's `alias`. The tables
in the documents are generated from the modules `…_settings`.
"""

from __future__ import annotations

import re
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

from headrace.core import duration
from headrace.core.errors import InvalidSpec

MIB = 1024 * 1024


def _span(value: object) -> object:
    """A time span as people write it: `PT5S`, `5s`, or plain seconds."""
    if not isinstance(value, str):
        return value
    read = duration.from_iso if value.startswith("P") else duration.from_go
    try:
        if value.replace(".", "", 1).isdecimal():
            return timedelta(seconds=float(value))
        return read(value, field="it")
    except (InvalidSpec, OverflowError):
        raise ValueError("give a time span, as PT5S or 5s") from None


Span = Annotated[timedelta, BeforeValidator(_span)]


def _variables(value: object) -> object:
    """`NAME=value` pairs with white space between them."""
    if not isinstance(value, str):
        return value
    pairs = [word.partition("=") for word in value.split()]
    if not all(found and _VARIABLE.fullmatch(name) for name, found, _ in pairs):
        raise ValueError("give NAME=value, with spaces between several")
    return tuple((name, text) for name, _, text in pairs)


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
Variables = Annotated[tuple[tuple[str, str], ...], BeforeValidator(_variables)]


def _words(value: object) -> object:
    """Words with commas between them, in lower case."""
    return tuple(word.strip().lower() for word in value.split(",") if word.strip()) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_words)]


def _networks(value: object) -> object:
    words = _words(value)
    if not isinstance(words, tuple):
        return words
    try:
        return tuple(ip_network(word) for word in words)
    except ValueError:
        raise ValueError("give addresses and networks, as 10.1.0.0/16,10.2.0.7") from None


Networks = Annotated[tuple[IPv4Network | IPv6Network, ...], BeforeValidator(_networks)]


def _url(value: str) -> str:
    """The URL without a slash at its end."""
    if not value.startswith(("http://", "https://")) or not value.partition("://")[2].strip("/"):
        raise ValueError("give a URL, as http://reconcile.knative-eventing.svc.cluster.local")
    return value.rstrip("/")


Url = Annotated[str, AfterValidator(_url)]


class Settings(BaseModel):
    # Built at first use: a process that starts from zero needs only its own settings.
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, defer_build=True)

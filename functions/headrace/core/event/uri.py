"""The addresses that events are POSTed to: which ones can be, and what of them may be shown.

A path or query may hold a key, and userinfo a password, so messages and logs show scheme and host only. Pure: looks
nothing up. Called by every part that reads an address from a manifest, from metadata or for a request.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address
from urllib.parse import urlsplit

from headrace.core.errors import InvalidSpec
from headrace.core.event.event import is_value
from headrace.core.quoting import quoted

_SHOWN = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,15}://|)(\[[0-9A-Fa-f:.%]*\]|[^/?#:@\\]*)")
_IN_WORDS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,15}://[^\s'\"<>]*")
_QUERY = re.compile(r"[?#].*", re.DOTALL)
_NAME = re.compile(r"[0-9a-z._-]+")
# The two IDNA standards make different names of these, so that the event could reach a stranger.
_AMBIGUOUS = re.compile("[\u00df\u03c2\u200c\u200d]")
_BLANK = re.compile("[\\x00-\\x20\\x7f-\\x9f]")
_DELIMITERS = ("/", "?", "#", ":", "\\")
_AT_SIGNS = "@\uff20\ufe6b"
# Characters of a name in DNS; a label has 63, which IDNA checks.
_LONGEST_NAME = 253


def checked_uri(uri: str, *, field: str) -> str:
    """A destination address fit to POST to: http or https, a host that can be looked up, no userinfo, no control
    characters.

    A bare `host/path` is taken as http, as Knative's reference does.

    Raises:
        InvalidSpec: naming `field`, with no more of the address than its scheme and host.
    """
    text = uri if "://" in uri else f"http://{uri}"
    named = f"{field} {redacted(uri)}"
    if _BLANK.search(text):
        raise InvalidSpec(f"{named} holds blanks or control characters: percent-encode them", field=field)
    # The address of a failed delivery becomes an attribute of the dead letter.
    if not is_value(text):
        raise InvalidSpec(f"{named} holds half a character, or what is none: percent-encode it", field=field)
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        # The parser's own words quote the text in the port's place, which may be a password.
        raise InvalidSpec(f"{named} is not a URL: see to its host and its port", field=field) from None
    if parts.scheme not in ("http", "https"):
        raise InvalidSpec(f"{named}: only http and https can be delivered to", field=field)
    if "@" in parts.netloc:
        raise InvalidSpec(f"{field} names a user or password: take the part before '@' out of the URL", field=field)
    if not parts.hostname:
        raise InvalidSpec(f"{named} has no host: give one, as in http://host/path", field=field)
    if problem := _problem(parts.hostname):
        raise InvalidSpec(f"{named}: {problem}", field=field)
    return text


def redacted(uri: str) -> str:
    """An address as a message may show it: its scheme and host, in quotes."""
    found = _SHOWN.match(uri)
    scheme, host = (found[1], found[2]) if found else ("", "")
    # The text before an '@' may be a password, wherever it stands; other alphabets have an '@' of their own.
    if any(sign in uri for sign in _AT_SIGNS):
        host = "…"
    # A path alone tells by its first character what it is.
    return quoted(scheme + host or (f"{uri[0]}…" if uri[:1] in _DELIMITERS else "…")) if uri else "''"


def hidden(text: str) -> str:
    """Words of others, with every address in them cut to the part that may be shown."""
    return _IN_WORDS.sub(lambda found: redacted(found[0])[1:-1], text)


def without_query(uri: str) -> str:
    return _QUERY.sub("", uri)


def _problem(host: str) -> str:
    """Why no request could reach a host of that name; empty when one could."""
    if _AMBIGUOUS.search(host):
        return "the host can be read in two ways: write it in its 'xn--' form"
    if ":" in host:
        return "" if _is_ipv6(host.partition("%")[0]) else "the host is no IPv6 address"
    if len(host) > _LONGEST_NAME:
        return f"the host is longer than the {_LONGEST_NAME} characters of a domain name"
    try:
        # Also for a host that is ASCII already: a label may be empty or too long.
        name = host.encode("idna").decode()
    except UnicodeError:
        return "the host is no domain name: a label is empty, longer than 63 characters, or has illegal ones"
    if len(name) > _LONGEST_NAME:
        return f"the host is longer than the {_LONGEST_NAME} characters of a domain name"
    # IDNA makes a blank of some accents, which would break the Host header.
    if not _NAME.fullmatch(name):
        return "the host is no domain name: it may have letters, digits, '-', '_' and '.'"
    return ""


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True

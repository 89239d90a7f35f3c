"""The channel of a request: by Host (its original one, behind Knative's gateway) or by path.

It is pure. The story calls it for each request, the short way for each whole post.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from headrace.core import names
from headrace.core.http import Headers, Request, Response, problem
from headrace.core.quoting import quoted

ALLOW: Headers = ((b"allow", b"POST, OPTIONS"),)
# Addresses come from strangers: so many are remembered with their subjects, and none of them is longer than two legal
# names and a domain can be.
REMEMBERED = 4096
LONGEST_ADDRESS = 640
# A path without escapes, query or empty parts: it needs no decoding.
_LITERAL_PATH = re.compile(rb"/|(?:/[a-z0-9.-]+)+")


def route(request: Request) -> str | Response:
    """The subject of a request's channel, or the answer to a request for no channel."""
    return _route(_hosts(request.fields), request.path)


def subject_of(host: bytes, url: bytes) -> str | None:
    """`route` for a request without other address headers, by its raw URL; None: ask `route` itself."""
    if len(url) > LONGEST_ADDRESS or len(host) > LONGEST_ADDRESS:
        return None
    return _subject_of(host, url)


@lru_cache(REMEMBERED)
def _subject_of(host: bytes, url: bytes) -> str | None:
    if _LITERAL_PATH.fullmatch(url) is None:
        return None
    found = _route((host,), url.decode())
    return found if isinstance(found, str) else None


def _route(hosts: tuple[bytes, ...], path: str) -> str | Response:
    for host in hosts:
        by_host = _subject_of_host(_text(host))
        if by_host is None:
            continue
        if path == names.READ_ONLY:
            return _read_only()
        if path not in ("/", ""):
            detail = f"the host names the channel already, so the path must be /, not {quoted(path)}"
            return problem(400, "Bad path", detail, headers=ALLOW)
        return by_host
    by_path = _subject_of_path(path)
    if by_path is not None:
        # Before the check of the ending: a channel may have that very name.
        return by_path
    if path.endswith(names.READ_ONLY) and _subject_of_path(path.removesuffix(names.READ_ONLY)) is not None:
        return _read_only()
    if path in ("/", ""):
        detail = (
            f"no channel has the host {quoted(_text(hosts[0]) if hosts else '')}: send to "
            "http://<name>-kn-jsm-channel.<namespace>.svc… or to the path /<namespace>/<name>"
        )
        return problem(404, "No such channel", detail, headers=ALLOW)
    detail = f"the path {quoted(path)} is not /<namespace>/<name>, both in lower case as Kubernetes names are"
    return problem(400, "Bad path", detail, headers=ALLOW)


def _read_only() -> Response:
    detail = "this channel is a mirror: send to the channel, or publish to the stream, that it mirrors"
    return problem(403, "Read-only channel", detail, headers=ALLOW)


@lru_cache(REMEMBERED)
def _remembered(kind: Callable[[str], names.Channel | None], address: str) -> str | None:
    channel = kind(address)
    return None if channel is None else channel.subject


def _subject_of_host(host: str) -> str | None:
    return _remembered(names.channel_of_host, host) if len(host) <= LONGEST_ADDRESS else None


def _subject_of_path(path: str) -> str | None:
    return _remembered(names.channel_of_path, path) if len(path) <= LONGEST_ADDRESS else None


def _hosts(fields: Mapping[bytes, bytes]) -> tuple[bytes, ...]:
    """K-Original-Host, the host of Forwarded, Host: Knative's gateway rewrites the last."""
    found = fields.get(b"k-original-host"), _forwarded_host(fields.get(b"forwarded", b"")), fields.get(b"host")
    return tuple([host for host in found if host is not None])


def _text(host: bytes) -> str:
    return host.decode("latin-1").strip()


def _forwarded_host(value: bytes) -> bytes | None:
    """The `host` of the first element of a Forwarded header (RFC 7239)."""
    for pair in value.split(b",")[0].split(b";"):
        name, _, host = pair.partition(b"=")
        if name.strip().lower() == b"host":
            return host.strip().strip(b'"')
    return None

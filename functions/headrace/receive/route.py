"""The channel of a request: by Host or by path, each in one spelling.

A mesh or a gateway in front of us may let callers through by host or path, and what it has read must be what we read:
so an address has no second spelling, and no header speaks for the host unless a configured proxy sends it (ADR 054).

It is pure. The story calls it for each request, the short way for each whole post.
"""

from __future__ import annotations

from functools import lru_cache

from headrace.core import hosts, names
from headrace.core.http import Headers, Request, Response, problem
from headrace.core.installation.function_settings import ReceiveSettings
from headrace.core.quoting import quoted

ALLOW: Headers = ((b"allow", b"POST, OPTIONS"),)
# Addresses come from strangers: so many are remembered with their subjects, and none of them is longer than two legal
# names and a domain can be.
REMEMBERED = 4096
LONGEST_ADDRESS = 640
_ORIGIN = b"origin"


class Router:
    """The addresses that count here."""

    def __init__(self, settings: ReceiveSettings) -> None:
        self._settings = settings
        self._header = settings.proxy_header.lower().encode() if settings.proxies else b""
        self._known = lru_cache(REMEMBERED)(self._subject_of)

    @property
    def declined(self) -> frozenset[bytes]:
        """Lower-case names of headers that `route` has to see."""
        return frozenset(([self._header] if self._header else []) + ([_ORIGIN] if self._settings.hosts else []))

    def route(self, request: Request) -> str | Response:
        """The subject of a request's channel, or the answer to a request for no channel."""
        host = request.header(b"host") or b""
        if self._header and self._is_proxy(request.peer):
            said = [value for name, value in request.headers if name == self._header]
            if len(said) > 1:
                detail = f"{self._header.decode()} is given {len(said)} times: a proxy gives it once"
                return problem(400, "Bad host", detail, headers=ALLOW)
            host = said[0] if said else host
        if self._settings.hosts and (refusal := self._refusal_of_stranger(host, request.header(_ORIGIN))) is not None:
            return refusal
        subject = self.subject_of(host, request.path.encode("utf-8", "replace"))
        return self._refusal(_text(host), request.path) if subject is None else subject

    def subject_of(self, host: bytes, path: bytes) -> str | None:
        """`route` for a request without declined headers; None: ask `route` itself."""
        if len(path) > LONGEST_ADDRESS or len(host) > LONGEST_ADDRESS:
            return None
        return self._known(host, path)

    def _subject_of(self, host: bytes, path: bytes) -> str | None:
        by_host = self._channel_of_host(_text(host))
        if by_host is None:
            if self._settings.hosts and not self._is_own(_text(host)):
                return None
            by_path = names.channel_of_path(path.decode())
            return None if by_path is None else by_path.subject
        return by_host.subject if path == b"/" else None

    def _channel_of_host(self, host: str) -> names.Channel | None:
        return names.channel_of_host(host, self._settings.domain) if self._settings.host_addresses else None

    def _is_proxy(self, peer: str) -> bool:
        address = hosts.address(peer)
        return address is not None and any(address in network for network in self._settings.proxies)

    def _is_own(self, host: str) -> bool:
        """Is this host one of the configured ones, or an address? DNS can't lead an address of a stranger's to us."""
        name = hosts.without_port(host)
        return name in self._settings.hosts or hosts.address(name) is not None

    def _refusal_of_stranger(self, host: bytes, origin: bytes | None) -> Response | None:
        """The answer to a host or an origin that is none of the configured ones."""
        ours = ", ".join(self._settings.hosts)
        said = _text(host)
        if self._channel_of_host(said) is None and not self._is_own(said):
            rule = f"the host {quoted(said)} is neither one of {ours} nor an IP address"
            detail = f"{rule}: send to one of these, or start receive with this host in RECEIVE_HOSTS"
            return problem(421, "Misdirected request", detail, headers=ALLOW)
        if origin is None:
            return None
        by = hosts.of_url(_text(origin))
        if by in self._settings.hosts or hosts.is_loopback(by):
            return None
        rule = f"a page of {quoted(_text(origin))} may not send events here, only pages of {ours}"
        detail = f"{rule}: send from one of these, or start receive with the page's host in RECEIVE_HOSTS"
        return problem(403, "Foreign origin", detail, headers=ALLOW)

    def _refusal(self, host: str, path: str) -> Response:
        if "%" in path:
            detail = f"the path {quoted(path)} has an escape: a channel has one address, and its names need no escapes"
            return problem(400, "Bad path", detail, headers=ALLOW)
        if self._channel_of_host(host) is not None:
            if path == names.READ_ONLY:
                return _read_only()
            detail = f"the host names the channel already, so the path must be /, not {quoted(path)}"
            return problem(400, "Bad path", detail, headers=ALLOW)
        if path.endswith(names.READ_ONLY) and names.channel_of_path(path.removesuffix(names.READ_ONLY)) is not None:
            return _read_only()
        if path in ("/", ""):
            where = (
                f"http://<name>{names.SUFFIX}.<namespace>.svc.{self._settings.domain}, or without the domain, or to "
            )
            by_host = where if self._settings.host_addresses else ""
            detail = f"no channel has the host {quoted(host)}: send to {by_host}the path /<namespace>/<name>"
            return problem(404, "No such channel", detail, headers=ALLOW)
        detail = f"the path {quoted(path)} is not /<namespace>/<name>, both in lower case as Kubernetes names are"
        if path.endswith("/"):
            detail += ", without a slash behind them"
        return problem(400, "Bad path", detail, headers=ALLOW)


def _read_only() -> Response:
    detail = (
        f"addresses that end in {names.READ_ONLY} are mirrors' and take no events: send to the channel, or publish to "
    )
    detail += f"the stream, that is mirrored; a channel that is no mirror has its address without {names.READ_ONLY}"
    return problem(403, "Read-only address", detail, headers=ALLOW)


def _text(host: bytes) -> str:
    return host.decode("latin-1").strip()

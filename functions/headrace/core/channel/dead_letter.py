"""The dead letter sink of a channel: from its author's words to the address that events are POSTed to.

Knows Knative's rules of destinations: an address, an object that has one, or a path below an object's. Looks nothing
up: the object is among the observed ones (`headrace.core.channel.related`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

from headrace.core.channel import related
from headrace.core.delivery.subscriber import Destination
from headrace.core.errors import InvalidSpec
from headrace.core.event.uri import checked_uri
from headrace.core.manifest import own_address
from headrace.core.manifest.delivery_spec import Ref, Sink
from headrace.core.manifest.own_address import OwnAddress
from headrace.core.quoting import quoted

FIELD = "spec.delivery.deadLetterSink"

INVALID = "DeadLetterSinkInvalid"
NOT_RESOLVED = "RefNotResolved"
NOT_SERVED = "DeadLetterSinkKindNotServed"
NOT_FOUND = "DeadLetterSinkNotFound"
NOT_ADDRESSABLE = "DeadLetterSinkNotAddressable"
ITSELF = "DeadLetterSinkIsItself"


@dataclass(frozen=True, slots=True)
class Unresolved:
    """Why there is no address; `reason` is the condition's."""

    reason: str
    message: str


Resolution = Destination | Unresolved | None
"""None: the channel has no dead letter sink."""


def resolve(
    sink: Sink | None,
    observed: Mapping[str, Any],
    own: OwnAddress,
    unserved: Collection[str] = (),
) -> Resolution:
    """The address of a dead letter sink.

    Args:
        observed: `related` of the hook's request.
        unserved: of the request, too.
        own: the channel's address; its namespace is the default for a ref without one.
    """
    if sink is None or (sink.ref is None and not sink.uri):
        return None if sink is None else Unresolved(INVALID, f"{FIELD} has neither ref nor uri: give one of the two")
    try:
        if sink.ref is None:
            return _elsewhere(_literal(sink), own)
        if own.is_named(sink.ref):
            return _itself(own)
        if f"{sink.ref.kind}.{sink.ref.api_version}" in unserved:
            return _not_served(sink.ref)
        found = _found(sink.ref, observed, own.namespace, own.domain)
        if isinstance(found, Unresolved):
            return found
        below = _below(found.uri, sink.uri)
        return _elsewhere(Destination(below, sink.ca_certs or found.ca_certs, sink.audience or found.audience), own)
    except InvalidSpec as error:
        return Unresolved(INVALID, str(error))


def _elsewhere(to: Destination, own: OwnAddress) -> Destination | Unresolved:
    """The address, unless it is the channel's own."""
    return _itself(own) if own.is_at(to.uri) else to


def _itself(own: OwnAddress) -> Unresolved:
    return Unresolved(ITSELF, f"{FIELD} is the channel {own.namespace}/{own.name} itself: {own_address.DEAD_LETTER}")


def _literal(sink: Sink) -> Destination:
    uri = sink.uri or ""
    if uri.startswith("/"):
        advice = "give a whole one, as http://host/path, or a ref that it is below"
        raise InvalidSpec(f"{FIELD}.uri is a path without a host: {advice}", field=f"{FIELD}.uri")
    return Destination(checked_uri(uri, field=f"{FIELD}.uri"), sink.ca_certs, sink.audience)


def _not_served(ref: Ref) -> Unresolved:
    advice = "install what brings it, or mend apiVersion and kind, as in kubectl api-resources"
    return Unresolved(
        NOT_SERVED, f"{FIELD}.ref: the cluster serves no kind {quoted(ref.kind)} of {ref.api_version}: {advice}"
    )


def _found(ref: Ref, observed: Mapping[str, Any], own: str, domain: str) -> Destination | Unresolved:
    namespace = ref.namespace or own
    name = f"{ref.kind} {namespace}/{ref.name}"
    if not ref.api_version:
        return Unresolved(INVALID, f"{FIELD}.ref has no apiVersion: give it, as v1 for a Service")
    if related.has_no_address(ref):
        advice = "name a Service, or a kind that has one in its status"
        return Unresolved(NOT_ADDRESSABLE, f"{FIELD}.ref: no {ref.kind} has an address: {advice}")
    if f"{ref.kind}.{ref.api_version}" not in observed:
        advice = (
            "give its uri, or let the operator read its kind, by a ClusterRole labelled duck.knative.dev/addressable"
        )
        return Unresolved(NOT_RESOLVED, f"{FIELD} has a ref, and {name} is not looked up here: {advice}")
    known = next(
        (
            one
            for one in related.objects(observed, ref.api_version, ref.kind)
            if (one["metadata"].get("namespace", own), one["metadata"].get("name")) == (namespace, ref.name)
        ),
        None,
    )
    if known is None:
        advice = "make it, or mend the ref"
        return Unresolved(NOT_FOUND, f"{FIELD}.ref: there is no {name} of {ref.api_version}: {advice}")
    if (ref.api_version, ref.kind) == ("v1", "Service"):
        return Destination(f"http://{ref.name}.{namespace}.svc.{domain}")
    address = _address(known, ref.address)
    if not isinstance(address.get("url"), str) or not address["url"]:
        which = f"no address {quoted(ref.address)}" if ref.address else "no address"
        return Unresolved(NOT_ADDRESSABLE, f"{FIELD}.ref: {name} has {which} in its status: wait, or see to it")
    uri = checked_uri(address["url"], field=f"{FIELD}.ref: the address of {name},")
    return Destination(uri, _text(address, "CACerts"), _text(address, "audience"))


def _address(known: Mapping[str, Any], wanted: str) -> Mapping[str, Any]:
    """The address that `wanted` names, else the first of several, else the only one."""
    status = known.get("status")
    status = status if isinstance(status, Mapping) else {}
    several = status.get("addresses")
    several = [one for one in several if isinstance(one, Mapping)] if isinstance(several, list) else []
    single = status.get("address")
    single = single if isinstance(single, Mapping) else {}
    if wanted:
        return next((one for one in (*several, single) if one.get("name") == wanted), {})
    return several[0] if several else single


def _below(address: str, path: str | None) -> str:
    if not path:
        return address
    try:
        uri, below = urljoin(address, path), urlsplit(path)
        stays = not below.scheme and urlsplit(uri).netloc == urlsplit(address).netloc
    except ValueError:
        # The parser's own words quote text that may be a password.
        stays = False
    if not stays:
        raise InvalidSpec(
            f"{FIELD}.uri beside a ref is a path below the object's address: take the scheme and host out of it, "
            "or the ref",
            field=f"{FIELD}.uri",
        )
    return checked_uri(uri, field=f"{FIELD}.uri")


def _text(address: Mapping[str, Any], key: str) -> str | None:
    value = address.get(key)
    return value if isinstance(value, str) and value else None

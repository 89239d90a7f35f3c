"""From what was observed to what is desired of NATS.

Pure: settings are an argument. Called by `headrace.reconcile` before it touches NATS; `headrace.core.channel.status`
tells the outcome.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.core import names
from headrace.core.channel import consumer, dead_letter, stream_config, weight
from headrace.core.channel.consumer import Row
from headrace.core.channel.dead_letter import Resolution
from headrace.core.channel.naming import Trespass
from headrace.core.channel.stream_config import WantedStreams
from headrace.core.channel.truth import Truth
from headrace.core.delivery import placement_spec
from headrace.core.errors import InvalidSpec
from headrace.core.installation.reconcile_settings import ReconcileSettings
from headrace.core.installation.tenants import Tenants
from headrace.core.manifest import manifest, own_address
from headrace.core.manifest.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Desired:
    """A channel that makes sense.

    Attributes:
        url: where its events are POSTed, once it takes any.
        sink: its dead letter sink.
        truth: what is known of its Subscriptions.
        trespasses: the names in its manifest that are not its to use.
        storage: what the channels of its namespace may reserve together, by storage.
    """

    manifest: Manifest
    wanted: WantedStreams
    rows: tuple[Row, ...]
    url: str
    sink: Resolution = None
    truth: Truth = field(default_factory=Truth)
    trespasses: tuple[Trespass, ...] = ()
    storage: Mapping[str, str] = field(default_factory=dict)


def desired(
    parent: Mapping[str, Any],
    settings: ReconcileSettings,
    related: Mapping[str, Any] | None = None,
    truth: Truth | None = None,
    unserved: Collection[str] = (),
    tenants: Tenants | None = None,
) -> Desired | InvalidSpec:
    """What the channel asks for, or what is wrong with it.

    Args:
        related: other objects that were observed, as the hook has them; none of them when it is not given.
        truth: of the Subscriptions among them.
        unserved: kinds that were to be observed and that the cluster does not serve.
        tenants: what the administrator grants beyond the usual; by default nothing.
    """
    truth, tenants = truth or Truth(), tenants or Tenants()
    try:
        channel = manifest.parse(parent)
        placement_spec.scope(channel.metadata.annotations)
        wanted = stream_config.wanted(channel, settings.cluster)
        written = channel.spec.delivery.dead_letter_sink if channel.spec.delivery else None
        own = own_address.of(parent, settings.domain, settings.address)
        sink = dead_letter.resolve(written, related or {}, own, unserved)

        def error_data(namespace: str) -> bool:
            return settings.error_data or any(one.error_data for one in tenants.of(namespace))

        most = tenants.bounds(channel.metadata.namespace).max_scale
        rows = consumer.rows(channel, wanted.place.stream, truth, sink, own, error_data, most)
        weight.check(channel.spec, wanted, rows)
        return Desired(channel, wanted, rows, _url(channel, settings), sink, truth)
    except InvalidSpec as error:
        return error


def _url(channel: Manifest, settings: ReconcileSettings) -> str:
    metadata = channel.metadata
    if settings.address:
        return settings.address.rstrip("/") + names.path(metadata.namespace, metadata.name)
    return f"http://{names.host(metadata.namespace, metadata.name, settings.domain)}"

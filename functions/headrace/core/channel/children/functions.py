"""Which functions a channel has, where they run, and how it is reached: `docs/adr/022-children.md`.

One `receive` serves a scope; one `forward` serves a subscriber or a scope. A channel has a set of its own when it
brings its own credentials, or wishes for its pods: a function that several channels share can't follow the wishes of
one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from headrace.core import names
from headrace.core.channel import guests
from headrace.core.channel.child_marks import COMPONENT_LABEL, SHARED_LABEL
from headrace.core.channel.children import deployment, encryption, knative, observed, services
from headrace.core.channel.children.access import NatsMounts
from headrace.core.channel.children.decision import Apart, Cluster, Functions, ServedConsumer
from headrace.core.channel.children.encryption import SecureAddress
from headrace.core.channel.children.live import Live
from headrace.core.channel.children.pod import Function
from headrace.core.channel.children.site import Site
from headrace.core.channel.guests import Guests
from headrace.core.channel.hook import CERT_MANAGER_API, KEDA_API, SERVING_API
from headrace.core.channel.lease_places import Forward
from headrace.core.conditions import Condition
from headrace.core.delivery import placement_spec
from headrace.core.delivery.placement_spec import Isolation, Keda, PlacementSpec, Runtime, Scope
from headrace.core.delivery.subscriber import LONGEST_TIMEOUT, SubscriberState
from headrace.core.errors import InvalidSpec
from headrace.core.installation.function_bounds import opens
from headrace.core.installation.reconcile_settings import ReconcileSettings
from headrace.core.manifest.manifest import Manifest, Metadata
from headrace.core.plural import counted

_DEPLOYMENT, _SERVICE = "Deployment.apps/v1", f"Service.{SERVING_API}"
_ELSEWHERE = (
    "the operator does not see this channel's stream, which is in another NATS account: a forward for each subscriber "
    "runs all the time and pulls by itself"
)


def functions(
    channel: Manifest,
    stream: str,
    served: Sequence[ServedConsumer] | None,
    settings: ReconcileSettings,
    access: NatsMounts,
    cluster: Cluster,
) -> Functions:
    """All functions of a channel; none where no image is set.

    Args:
        stream: the stream of the consumers.
        served: the consumers; None when they were not reached: then each `forward` stays as it is.

    Raises:
        InvalidSpec: an annotation of the channel makes no sense.
    """
    scope = placement_spec.scope(channel.metadata.annotations)
    spec = placement_spec.from_annotations(channel.metadata.annotations)
    if not settings.image:
        return Functions(encryption=cluster.encryption)
    wanted = _Wanted(channel, stream, settings, access, cluster, scope)
    # A refused subscriber needs no function; a GONE one does, since it may come back in a moment.
    delivered = [one for one in served or () if one.subscriber.state is not SubscriberState.REFUSED]
    wanted.admit(spec, delivered)
    urls, https = wanted.receive(spec)
    if served is None:
        wanted.keep_forwards(spec)
    for one in delivered:
        wanted.forward(one)
    objects = (*wanted.account(), *wanted.objects.values())
    conditions = (*wanted.conditions(spec), wanted.live.condition(objects))
    readiness = wanted.live.readiness(served or (), wanted.delivers)
    return Functions(
        objects,
        urls,
        cluster.encryption,
        https,
        wanted.forwards,
        conditions,
        readiness,
        tuple(wanted.beyond()),
        crowded=wanted.crowded,
    )


def remaining(
    metadata: Metadata,
    settings: ReconcileSettings,
    access: NatsMounts,
    cluster: Cluster,
    served: Iterable[ServedConsumer],
    *,
    addressed: bool,
) -> Functions:
    """The present functions of a channel whose spec is invalid, so that its deliveries go on.

    Args:
        served: its consumers; each is served by what is there for it.
        addressed: it has had an address, so it was valid before.
    """
    if not settings.image:
        return Functions()
    spec = PlacementSpec()
    with suppress(InvalidSpec):
        spec = placement_spec.from_annotations(metadata.annotations)
    wanted = _Wanted(Manifest(metadata=metadata), "", settings, access, cluster, _scope_of(metadata, cluster))
    if not (addressed or any(cluster.children.values())):
        # It has no objects yet, but one with its own credentials needs its `reconcile` to become Ready at all.
        return Functions((*wanted.account(), *wanted.objects.values()) if wanted.objects else ())
    wanted.keep("receive", "channel")
    if not any(observed.labels(one).get(COMPONENT_LABEL) == "receive" for one in wanted.objects.values()):
        # `receive` is shared with channels of other namespaces, so it was not among the children in the request.
        wanted.receive(spec)
    wanted.keep_forwards(spec)
    for one in served:
        wanted.find_forward(one)
    return Functions((*wanted.account(), *wanted.objects.values()), forwards=wanted.forwards)


def apart(channel: Manifest, settings: ReconcileSettings, access: NatsMounts, cluster: Cluster) -> Apart | None:
    """The `reconcile` through which a channel's NATS account is reached; None where it is the installation's own."""
    if not settings.image:
        return None
    wanted = _Wanted(channel, "", settings, access, cluster, _scope_of(channel.metadata, cluster))
    site = wanted.site
    if not site.apart:
        return None
    return Apart(site.url(site.reconcile()), (*wanted.account(), *wanted.objects.values()))


def _scope_of(metadata: Metadata, cluster: Cluster) -> Scope:
    """The scope by the annotation, or, where that is invalid, by the objects that the channel has."""
    try:
        return placement_spec.scope(metadata.annotations)
    except InvalidSpec:
        shared = (one for one in observed.lasting(cluster.children) if SHARED_LABEL in observed.labels(one))
        here = any(one["metadata"]["namespace"] == metadata.namespace for one in shared)
        return Scope.NAMESPACE if here else Scope.CLUSTER


class _Wanted:
    """Gathers the objects that one channel wants."""

    def __init__(
        self,
        channel: Manifest,
        stream: str,
        settings: ReconcileSettings,
        access: NatsMounts,
        cluster: Cluster,
        scope: Scope,
    ) -> None:
        self._channel = channel
        self._stream = stream
        self._settings = settings
        self._cluster = cluster
        self.site = Site(channel, stream, settings, access, scope, cluster)
        # Nobody opens leases: each `forward` then serves one consumer, and opens its leases itself.
        self._unwoken = cluster.elsewhere or cluster.stock
        apis = cluster.apis or frozenset()
        self._setting = None if settings.runtime == "auto" else Runtime(settings.runtime)
        existing = cluster.children.get(f"Service.{SERVING_API}")
        # The settings may promise Knative Serving; and a cluster with one of its Services has it installed.
        self._serving = (
            self._setting is Runtime.KNATIVE or SERVING_API in apis or bool(existing) or cluster.apis is None
        )
        self._auto = Runtime.KNATIVE if SERVING_API in apis or existing else Runtime.DEPLOYMENT
        self._keda = KEDA_API in apis
        self._certified = CERT_MANAGER_API in apis
        self._encryption = cluster.encryption
        self._lacking: dict[str, list[str]] = {}
        self.live = Live(cluster, channel.metadata.namespace)
        # The Knative Service proves a template for the others.
        self._receive: dict[str, Any] | None = None
        self.delivers: dict[str, dict[str, Any]] = {}
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.forwards: dict[str, Forward] = {}
        # The names of the functions that there is room for; None where there is no bound.
        self._admitted: frozenset[str] | None = None
        self._waiting = 0
        if self.site.apart:
            self._add_reconcile()

    def admit(self, spec: PlacementSpec, served: Sequence[ServedConsumer]) -> None:
        """Decide which functions may be the channel's own in a namespace of others: the oldest, and `receive` first."""
        if not self.site.bounded:
            return
        receive = self.site.function("receive", plain=self._runtime(spec) is Runtime.DEPLOYMENT)
        functions = [receive, *(self._forward_of(one)[0] for one in served)]
        place, bounds = self.site.namespace, self._cluster.bounds
        self._admitted = guests.admitted(
            [one.name for one in functions if not one.shared],
            observed.functions(self._cluster.children, place),
            self._cluster.guests.get(place, Guests()),
            bounds.functions,
        )
        if not receive.shared and receive.name not in self._admitted:
            self.site.give_up_own(self._no_room())

    def beyond(self) -> Iterable[str]:
        """Sentences about what is beyond the bounds of the channel's namespace."""
        yield from self.site.refused
        if self._waiting:
            yield f"one forward serves {counted(self._waiting, 'subscriber')}: {self._no_room()}"

    @property
    def crowded(self) -> bool:
        """Is there something that another look may find room for?"""
        return self._waiting > 0

    def _no_room(self) -> str:
        most, namespace = self._cluster.bounds.functions, self._channel.metadata.namespace
        bound = f"the channels of namespace {namespace} may have {counted(most, 'function')} of their own"
        return f"{bound} in namespace {self.site.namespace}, {opens('most: …')}"

    def receive(self, spec: PlacementSpec) -> tuple[tuple[str, ...], SecureAddress | None]:
        """Add `receive`, and give the http addresses of the channel and the https one."""
        metadata = self._channel.metadata
        path = names.path(metadata.namespace, metadata.name)
        host = self._settings.host_urls or self._runtime(spec) is Runtime.DEPLOYMENT
        plain = self.site.function("receive", plain=True)
        given = encryption.given(self._settings, path) if self._encryption.asked_for else None
        urls, https = [], given
        if self._runtime(spec) is Runtime.KNATIVE:
            function = self.site.function("receive", plain=False)
            self._add_receive(function, plain=False)
            urls.append(self.site.url(function) + path)
            https = https or self.live.https(self._receive, path)
        if host or (self._encryption.asked_for and https is None):
            self._add_receive(plain, plain=True)
            https = https or self._encryption.address(self.site.url(plain, "https") + path)
        if host:
            # Services begin with a letter; channels need not.
            if names.channel(metadata.namespace, metadata.name).label[0].isalpha():
                self._add(services.of_channel(metadata.namespace, metadata.name, plain, self._settings.domain))
                urls.append(f"http://{names.host(metadata.namespace, metadata.name, self._settings.domain)}")
            elif not urls:
                urls.append(self.site.url(plain) + path)
        if self._settings.address and given is None:
            urls.insert(0, self._settings.address.rstrip("/") + path)
        return tuple(urls), https if self._encryption.asked_for else None

    def forward(self, served: ServedConsumer) -> None:
        subscriber = served.subscriber
        wanted, plain, alone = self._forward_of(served)
        whom = f"Subscription {subscriber.full_name}"
        if not (wanted.shared or self._admitted is None or wanted.name in self._admitted):
            self._waiting += 1
            wanted, alone = self.site.overflow(plain=plain), False
        scaling = knative.of_leases(1, subscriber.most_leases, subscriber.policy.timeout) if alone else self._of_many()
        known = (_DEPLOYMENT if plain else _SERVICE, wanted.namespace, wanted.name) in self.objects
        function = wanted if known else self._add_forward(wanted, scaling, whom, plain=plain)
        if function is not None:
            # A shared one can't know its consumers, since no single channel knows them all: it waits for leases.
            pulls = plain and alone and not subscriber.audiences
            self.forwards[served.durable] = Forward(self.site.url(function), pulls)
            kind = _DEPLOYMENT if plain else _SERVICE
            self.delivers[served.durable] = self.objects[kind, function.namespace, function.name]
            if plain:
                self._scale(function, served, alone=alone)

    def _forward_of(self, served: ServedConsumer) -> tuple[Function, bool, bool]:
        """The `forward` that a consumer is to have, whether it is plain, and whether it is the consumer's alone."""
        spec = served.subscriber.placement
        plain = self._unwoken or self._runtime(spec) is Runtime.DEPLOYMENT
        alone = self._unwoken or self._isolation(spec) is Isolation.SUBSCRIBER
        return self.site.function("forward", served if alone else None, plain=plain), plain, alone

    def shared_forward(self, *, plain: bool, whom: str = "the channel") -> Function | None:
        """Add the `forward` that all subscribers of the scope, or of the channel, share; None where it can't be."""
        return self._add_forward(self.site.function("forward", plain=plain), self._of_many(), whom, plain=plain)

    def _of_many(self) -> knative.Scaling:
        """The scaling of a `forward` of several subscribers."""
        return knative.of_leases(self._settings.leases_per_pod, self._settings.shared_max_scale, LONGEST_TIMEOUT)

    def keep_forwards(self, spec: PlacementSpec) -> None:
        """Want every present `forward`, whatever it serves."""
        self.keep("forward")
        if self._isolation(spec) is Isolation.SHARED and not self._unwoken:
            self.shared_forward(plain=self._runtime(spec) is Runtime.DEPLOYMENT)
        for plain in (False, True) if self.site.bounded else ():
            function = self.site.overflow(plain=plain)
            if self.live.has(function.namespace, function.name):
                self._add_forward(function, self._of_many(), "the channel", plain=plain)

    def find_forward(self, served: ServedConsumer) -> None:
        """Find the `forward` that delivers for a consumer among the wanted objects: its own, or one that it shares."""
        for alone, plain in ((True, False), (True, True), (False, False), (False, True)):
            shared = [self.site.overflow(plain=plain)] if self.site.bounded else []
            shared.append(self.site.function("forward", plain=plain))
            for function in [self.site.function("forward", served, plain=plain)] if alone else shared:
                if (_DEPLOYMENT if plain else _SERVICE, function.namespace, function.name) in self.objects:
                    pulls = plain and alone and not served.subscriber.audiences
                    self.forwards.setdefault(served.durable, Forward(self.site.url(function), pulls))

    def keep(self, *components: str) -> None:
        """Want the channel's own objects of these components as they are, and shared ones as every channel wants them.

        Else a shared object that one channel wants as it is, and others anew, would be written back and forth for ever.
        """
        for one in observed.lasting(self._cluster.children):
            labels, plain = observed.labels(one), one["metadata"]["name"].endswith("-plain")
            if labels.get(COMPONENT_LABEL) not in components:
                continue
            if SHARED_LABEL not in labels:
                self._add(observed.wanted_again(one))
            elif labels[COMPONENT_LABEL] == "receive":
                self._add_receive(self.site.function("receive", plain=plain), plain=plain)
            else:
                self.shared_forward(plain=plain)

    def account(self) -> Iterable[dict[str, Any]]:
        """The service account of functions in a namespace that nobody has prepared: all channels there share it."""
        name = "" if self._cluster.stock else self._settings.service_account
        return [services.account(name, self.site.namespace)] if name and self.site.scope is Scope.NAMESPACE else []

    def conditions(self, spec: PlacementSpec) -> Iterable[Condition]:
        """The conditions about missing parts of the cluster."""
        if whom := self._lacking.get(SERVING_API):
            # Without `receive` nothing works; a Subscription that asks for a missing API harms only itself.
            informative = self._runtime(spec) is not Runtime.KNATIVE
            advice = f"install Knative Serving, or take the annotation {placement_spec.RUNTIME}: knative out"
            message = f"the cluster does not serve {SERVING_API}, which {', '.join(whom[:3])} asks for: {advice}"
            yield Condition("ServingInstalled", False, "ServingNotInstalled", message, informative=informative)
        if self._cluster.elsewhere:
            yield Condition("WokenByOperator", False, "StreamElsewhere", _ELSEWHERE, informative=True)
        if whom := self._lacking.get(KEDA_API):
            message = f"{', '.join(whom[:3])}: {placement_spec.KEDA} is not obeyed, one pod pulls and is not scaled"
            yield Condition("ScaledByKeda", False, "KedaNotUsed", message, informative=True)

    def _add_reconcile(self) -> None:
        function = self.site.reconcile()
        self._add(deployment.deployment(function, knative.LEAST_TIMEOUT_SECONDS), deployment.service(function))

    def _add_receive(self, function: Function, *, plain: bool) -> None:
        if plain:
            service = deployment.service(function, secure=self._encryption.asked_for)
            self._add(deployment.deployment(function, knative.LEAST_TIMEOUT_SECONDS), service)
            if self._encryption.asked_for and self._certified:
                self._add(*encryption.certificates(function, self._settings))
        elif wanted := self._knative(function, knative.of_events(), "the channel"):
            self._receive = wanted
            self._add(self.live.first(wanted))

    def _add_forward(self, function: Function, scaling: knative.Scaling, whom: str, *, plain: bool) -> Function | None:
        if plain:
            self._add(deployment.deployment(function, scaling.timeout_seconds), deployment.service(function))
        elif wanted := self._knative(function, scaling, whom):
            self._add(self.live.after(self._receive, wanted))
        else:
            return None
        return function

    def _isolation(self, spec: PlacementSpec) -> Isolation:
        return spec.isolation or Isolation(self._settings.isolation)

    def _runtime(self, spec: PlacementSpec) -> Runtime:
        return spec.runtime or self._setting or self._auto

    def _scale(self, function: Function, served: ServedConsumer, *, alone: bool) -> None:
        subscriber = served.subscriber
        asked = subscriber.placement.keda
        if asked is Keda.NO or (asked is None and not self._settings.keda_monitoring):
            return
        if not alone:
            reason = "a shared forward serves many consumers"
        elif self._cluster.elsewhere:
            reason = "the stream is in another NATS account than HEADRACE_KEDA_ACCOUNT"
        elif not self._keda:
            reason = f"the cluster does not serve {KEDA_API}"
        elif not self._settings.keda_monitoring:
            reason = "HEADRACE_KEDA_MONITORING is not set"
        else:
            self._add(deployment.scaled_object(function, self._stream, served.durable, subscriber))
            return
        if asked is Keda.YES:
            self._lack(KEDA_API, f"{subscriber.full_name} ({reason})")

    def _knative(self, function: Function, scaling: knative.Scaling, whom: str) -> dict[str, Any] | None:
        """The Knative Service to add, where there is Knative Serving."""
        if self._serving:
            return knative.service(function, scaling)
        self._lack(SERVING_API, whom)
        return None

    def _lack(self, api: str, whom: str) -> None:
        self._lacking.setdefault(api, []).append(whom)

    def _add(self, *objects: dict[str, Any]) -> None:
        for one in objects:
            metadata = one["metadata"]
            key = (f"{one['kind']}.{one['apiVersion']}", metadata["namespace"], metadata["name"])
            self.objects.setdefault(key, one)

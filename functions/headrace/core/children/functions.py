"""Which functions a channel has, where they run, and how it is reached: `docs/adr/022-children.md`.

`receive` is one for a scope, `forward` one for each subscriber or for a scope. A channel has a set of its own when it
brings credentials of its own, or wishes of its own for its pods: what several share can't follow the wishes of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from headrace.core import names, placement_spec
from headrace.core.children import child_names, deployment, knative, observed, services
from headrace.core.children.access import Access
from headrace.core.children.decision import Cluster, Forward, Functions, Served
from headrace.core.children.pod import COMPONENT_LABEL, SHARED_LABEL, Function
from headrace.core.conditions import Condition
from headrace.core.errors import InvalidSpec
from headrace.core.manifest import Manifest, Metadata
from headrace.core.placement_spec import Isolation, Keda, PlacementSpec, Runtime, Scope
from headrace.core.settings import ReconcileSettings
from headrace.core.subscriber import LONGEST_TIMEOUT, SubscriberState

SERVING, KEDA = knative.API_VERSION, deployment.KEDA_API_VERSION


def functions(
    channel: Manifest,
    stream: str,
    served: Sequence[Served] | None,
    settings: ReconcileSettings,
    access: Access,
    cluster: Cluster,
) -> Functions:
    """All functions of a channel; none where no image is set.

    Args:
        stream: that the consumers are of.
        served: None when the consumers were not reached: then each `forward` stays as it is.

    Raises:
        InvalidSpec: an annotation of the channel makes no sense.
    """
    scope = placement_spec.scope(channel.metadata.annotations)
    spec = placement_spec.read(channel.metadata.annotations)
    if not settings.image:
        return Functions()
    site = _Site(channel, stream, settings, access, cluster, scope)
    urls = site.receive(spec)
    if served is None:
        site.keep_forwards(spec)
    for one in served or ():
        # One that can't be delivered to has no use for a function; one that may come back in a moment has.
        if one.subscriber.state is not SubscriberState.REFUSED:
            site.forward(one)
    objects = (*site.account(), *site.objects.values())
    conditions = (*site.conditions(spec), *observed.conditions(objects, cluster.children, channel.metadata.namespace))
    return Functions(objects, urls, site.forwards, conditions)


def remaining(
    metadata: Metadata, settings: ReconcileSettings, access: Access, cluster: Cluster, *, addressed: bool
) -> tuple[dict[str, Any], ...]:
    """The objects of a channel that makes no sense any more: those that it has, so that what it has goes on.

    Args:
        addressed: it has made sense before.
    """
    if not settings.image or not (addressed or any(cluster.children.values())):
        return ()
    spec = PlacementSpec()
    with suppress(InvalidSpec):
        spec = placement_spec.read(metadata.annotations)
    site = _Site(Manifest(metadata=metadata), "", settings, access, cluster, _scope_of(metadata, cluster))
    site.keep("receive", "channel")
    if not any(observed.labels(one).get(COMPONENT_LABEL) == "receive" for one in site.objects.values()):
        # It is shared with other namespaces, and nobody has told of it.
        site.receive(spec)
    site.keep_forwards(spec)
    return (*site.account(), *site.objects.values())


def _scope_of(metadata: Metadata, cluster: Cluster) -> Scope:
    """As its annotation says, or, where that makes no sense, as it is."""
    try:
        return placement_spec.scope(metadata.annotations)
    except InvalidSpec:
        shared = (one for one in observed.lasting(cluster.children) if SHARED_LABEL in observed.labels(one))
        here = any(one["metadata"]["namespace"] == metadata.namespace for one in shared)
        return Scope.NAMESPACE if here else Scope.CLUSTER


class _Site:
    """Where the functions of one channel run; gathers them."""

    def __init__(
        self,
        channel: Manifest,
        stream: str,
        settings: ReconcileSettings,
        access: Access,
        cluster: Cluster,
        scope: Scope,
    ) -> None:
        metadata = channel.metadata
        own_pods = channel.spec.deployment_spec_template
        self._channel = channel
        self._stream = stream
        self._settings = settings
        self._access = access
        self._cluster = cluster
        # Secrets can be mounted in their own namespace only.
        local = scope is Scope.NAMESPACE or access.own
        self._namespace = metadata.namespace if local else settings.system_namespace
        # Those of the system namespace are the cluster's, whoever lives there.
        self._scope = Scope.CLUSTER if self._namespace == settings.system_namespace else Scope.NAMESPACE
        self._template = own_pods if own_pods is not None and own_pods.model_fields_set else None
        self._own = access.own or self._template is not None
        apis = cluster.apis or frozenset()
        self._setting = None if settings.runtime == "auto" else Runtime(settings.runtime)
        existing = cluster.children.get(f"Service.{SERVING}")
        # Whoever says knative in the settings has seen to it; and what exists can't be of a kind that does not.
        self._serving = self._setting is Runtime.KNATIVE or SERVING in apis or bool(existing) or cluster.apis is None
        self._auto = Runtime.KNATIVE if SERVING in apis or existing else Runtime.DEPLOYMENT
        self._keda = KEDA in apis
        self._lacking: dict[str, list[str]] = {}
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.forwards: dict[str, Forward] = {}

    def receive(self, spec: PlacementSpec) -> tuple[str, ...]:
        """Add `receive`, and give the addresses of the channel; a mirror has none."""
        if self._channel.spec.stream.config.mirror:
            return ()
        metadata = self._channel.metadata
        path = names.path(metadata.namespace, metadata.name)
        host = self._settings.host_urls or self._runtime(spec) is Runtime.DEPLOYMENT
        plain = self._function("receive", plain=True)
        urls = []
        if self._runtime(spec) is Runtime.KNATIVE:
            function = self._function("receive", plain=False)
            self._add_receive(function, plain=False)
            urls.append(self._url(function) + path)
        if host:
            self._add_receive(plain, plain=True)
            # Services begin with a letter; channels need not.
            if names.channel(metadata.namespace, metadata.name).label[0].isalpha():
                self._add(services.of_channel(metadata.namespace, metadata.name, plain, self._settings.domain))
                urls.append(f"http://{names.host(metadata.namespace, metadata.name, self._settings.domain)}")
            elif not urls:
                urls.append(self._url(plain) + path)
        if self._settings.address:
            urls.insert(0, self._settings.address.rstrip("/") + path)
        return tuple(urls)

    def forward(self, served: Served) -> None:
        """Add the `forward` of one consumer."""
        subscriber = served.subscriber
        spec, whom = subscriber.placement, f"Subscription {subscriber.full_name}"
        plain = self._runtime(spec) is Runtime.DEPLOYMENT
        alone = self._isolation(spec) is Isolation.SUBSCRIBER
        if alone:
            scaling = knative.of_leases(1, subscriber.most_leases, subscriber.policy.timeout)
            function = self._add_forward(self._function("forward", served, plain=plain), scaling, whom, plain=plain)
        else:
            function = self.shared_forward(plain=plain, whom=whom)
        if function is not None:
            # Which consumers a shared one serves, no single channel knows: leases are opened there.
            self.forwards[served.durable] = Forward(self._url(function), pulls=plain and alone)
            if plain:
                self._scale(function, served, alone=alone)

    def shared_forward(self, *, plain: bool, whom: str = "the channel") -> Function | None:
        """Add the `forward` that all subscribers of the scope, or of the channel, share; None where it can't be."""
        scaling = knative.of_leases(self._settings.leases_per_pod, self._settings.shared_max_scale, LONGEST_TIMEOUT)
        return self._add_forward(self._function("forward", plain=plain), scaling, whom, plain=plain)

    def keep_forwards(self, spec: PlacementSpec) -> None:
        """Want those that are there, whatever they serve."""
        self.keep("forward")
        if self._isolation(spec) is Isolation.SHARED:
            self.shared_forward(plain=self._runtime(spec) is Runtime.DEPLOYMENT)

    def keep(self, *components: str) -> None:
        """Want what is there of the channel's own as it is, and what it shares as all others want it.

        To want a shared one as it is would be to want it otherwise than they do: two would write it in turn for ever.
        """
        for one in observed.lasting(self._cluster.children):
            labels, plain = observed.labels(one), one["metadata"]["name"].endswith("-plain")
            if labels.get(COMPONENT_LABEL) not in components:
                continue
            if SHARED_LABEL not in labels:
                self._add(observed.wanted_again(one))
            elif labels[COMPONENT_LABEL] == "receive":
                self._add_receive(self._function("receive", plain=plain), plain=plain)
            else:
                self.shared_forward(plain=plain)

    def account(self) -> Iterable[dict[str, Any]]:
        """The service account of functions in a namespace that nobody has prepared."""
        name = self._settings.service_account
        return [services.account(name, self._namespace)] if name and self._scope is Scope.NAMESPACE else []

    def conditions(self, spec: PlacementSpec) -> Iterable[Condition]:
        """What the cluster lacks."""
        if whom := self._lacking.get(SERVING):
            # Without `receive` nothing works; a Subscription that asks for what is not there harms itself only.
            informative = self._runtime(spec) is not Runtime.KNATIVE
            advice = f"install Knative Serving, or take the annotation {placement_spec.RUNTIME}: knative out"
            message = f"the cluster does not serve {SERVING}, which {', '.join(whom[:3])} asks for: {advice}"
            yield Condition("ServingInstalled", False, "ServingNotInstalled", message, informative=informative)
        if whom := self._lacking.get(KEDA):
            message = f"{', '.join(whom[:3])}: {placement_spec.KEDA} is not obeyed, one pod pulls and is not scaled"
            yield Condition("ScaledByKeda", False, "KedaNotUsed", message, informative=True)

    def _add_receive(self, function: Function, *, plain: bool) -> None:
        if plain:
            self._add(deployment.deployment(function, knative.LEAST_TIMEOUT_SECONDS), deployment.service(function))
        else:
            self._add_knative(function, knative.of_events(), "the channel")

    def _add_forward(self, function: Function, scaling: knative.Scaling, whom: str, *, plain: bool) -> Function | None:
        if not plain:
            return function if self._add_knative(function, scaling, whom) else None
        self._add(deployment.deployment(function, scaling.timeout_seconds), deployment.service(function))
        return function

    def _isolation(self, spec: PlacementSpec) -> Isolation:
        return spec.isolation or Isolation(self._settings.isolation)

    def _runtime(self, spec: PlacementSpec) -> Runtime:
        return spec.runtime or self._setting or self._auto

    def _scale(self, function: Function, served: Served, *, alone: bool) -> None:
        subscriber = served.subscriber
        asked = subscriber.placement.keda
        if asked is Keda.NO or (asked is None and not self._settings.keda_monitoring):
            return
        if not alone:
            reason = "a shared forward serves many consumers"
        elif not self._keda:
            reason = f"the cluster does not serve {KEDA}"
        elif not self._settings.keda_monitoring:
            reason = "HEADRACE_KEDA_MONITORING is not set"
        else:
            self._add(deployment.scaled_object(function, self._stream, served.durable, subscriber))
            return
        if asked is Keda.YES:
            self._lack(KEDA, f"{subscriber.full_name} ({reason})")

    def _function(self, target: str, served: Served | None = None, *, plain: bool) -> Function:
        metadata = self._channel.metadata
        shared = served is None and not self._own
        if shared:
            name = child_names.shared(target, plain=plain)
        else:
            identity = (metadata.namespace, metadata.name, *((served.durable,) if served else ()))
            stem = (served.subscriber.name if served else "") or metadata.name
            name = child_names.own(target, identity, stem, plain=plain)
        pulls = served is not None and plain
        return Function(
            target=target,
            name=name,
            namespace=self._namespace,
            settings=self._settings,
            access=self._access,
            shared=shared,
            variables=(("FORWARD_CONSUMERS", f"{self._stream}/{served.durable}"),) if served and pulls else (),
            labels={"headrace.dev/scope": str(self._scope)} if shared else {},
            annotations={} if shared else self._notes(served),
            template=self._template,
        )

    def _notes(self, served: Served | None) -> dict[str, str]:
        """Whose it is, for people; too long for labels."""
        metadata = self._channel.metadata
        notes = {"headrace.dev/channel": f"{metadata.namespace}/{metadata.name}"}
        return {**notes, "headrace.dev/subscription": served.subscriber.full_name} if served else notes

    def _url(self, function: Function) -> str:
        return f"http://{function.name}.{function.namespace}.svc.{self._settings.domain}"

    def _add_knative(self, function: Function, scaling: knative.Scaling, whom: str) -> bool:
        """Add it where there is Knative Serving, and say whether there is."""
        if self._serving:
            self._add(knative.service(function, scaling))
        else:
            self._lack(SERVING, whom)
        return self._serving

    def _lack(self, api: str, whom: str) -> None:
        self._lacking.setdefault(api, []).append(whom)

    def _add(self, *objects: dict[str, Any]) -> None:
        for one in objects:
            metadata = one["metadata"]
            key = (f"{one['kind']}.{one['apiVersion']}", metadata["namespace"], metadata["name"])
            self.objects.setdefault(key, one)

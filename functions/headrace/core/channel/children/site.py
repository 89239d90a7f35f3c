"""Where the functions of one channel run, and which of them it shares: `docs/adr/022-children.md`.

A channel has a set of its own when it has credentials of its own or wishes for its pods. It also has one under a stock
Metacontroller, where the set is in the channel's namespace. Where its pods have other NATS credentials than the
installation, a `reconcile` among them acts in that account (`docs/adr/030-connections.md`).
"""

from __future__ import annotations

from headrace.core.channel.child_marks import CHANNEL_ANNOTATION, SCOPE_LABEL, SUBSCRIPTION_ANNOTATION, TENANT_LABEL
from headrace.core.channel.children import child_names, encryption, shared_place
from headrace.core.channel.children.access import NatsMounts
from headrace.core.channel.children.decision import Cluster, ServedConsumer
from headrace.core.channel.children.pod import TLS_PORT, Function
from headrace.core.delivery.placement_spec import Scope
from headrace.core.installation.reconcile_settings import ReconcileSettings
from headrace.core.manifest.manifest import Manifest

RECONCILE = "reconcile"


class Site:
    """The place of one channel's functions.

    Attributes:
        scope: the channels that share them; in the system namespace all channels of the cluster.
        apart: their NATS credentials are not the installation's.
        bounded: it is a namespace of others, of which each tenant has a share.
        refused: sentences about the author's wishes that are not obeyed at this place.
    """

    def __init__(
        self,
        channel: Manifest,
        stream: str,
        settings: ReconcileSettings,
        access: NatsMounts,
        scope: Scope,
        cluster: Cluster,
    ) -> None:
        metadata = channel.metadata
        self._channel = channel
        self._stream = stream
        self._settings = settings
        self._access = access
        # Secrets can be mounted in their own namespace only.
        local = scope is Scope.NAMESPACE or access.own or cluster.stock
        self.namespace = metadata.namespace if local else settings.system_namespace
        self.scope = Scope.CLUSTER if self.namespace == settings.system_namespace else Scope.NAMESPACE
        # Being in the channel's namespace only for a stock Metacontroller's sake does not change their credentials.
        self.apart = access.own or (scope is Scope.NAMESPACE and self.scope is Scope.NAMESPACE)
        author = shared_place.template_of(channel)
        self.bounded = self.namespace != metadata.namespace
        if not self.bounded:
            obeyed = shared_place.own(author)
        else:
            obeyed = shared_place.bounded(author, cluster.bounds, cluster.given, self.namespace)
        self._template, self.refused = obeyed.wishes, obeyed.refused
        self._own = access.own or bool(self._template) or cluster.stock
        self._own_reconcile = access.own or cluster.stock

    def function(self, target: str, served: ServedConsumer | None = None, *, plain: bool) -> Function:
        """A function with its name and its settings at this place.

        Args:
            served: the only consumer of a `forward`.
        """
        metadata = self._channel.metadata
        # A `reconcile` depends on the credentials alone, so that it can be found without the rest of a channel's spec.
        shared = not self._own_reconcile if target == RECONCILE else served is None and not self._own
        if shared:
            name = child_names.shared(target, plain=plain)
        else:
            identity = (metadata.namespace, metadata.name, *((served.durable,) if served else ()))
            stem = (served.subscriber.name if served else "") or metadata.name
            name = child_names.own(target, identity, stem, plain=plain)
        labels = {SCOPE_LABEL: str(self.scope)} if shared else {}
        return self._build(target, name, served, plain=plain, shared=shared, labels=labels)

    def overflow(self, *, plain: bool) -> Function:
        """The `forward` of all subscribers of the channel's namespace for whose own there is no room (ADR 051)."""
        namespace = self._channel.metadata.namespace
        name = child_names.own("forward", (namespace,), namespace, plain=plain)
        labels = {SCOPE_LABEL: str(self.scope), TENANT_LABEL: namespace}
        return self._build("forward", name, plain=plain, shared=True, labels=labels)

    def give_up_own(self, why: str) -> None:
        """There is no room for a `receive` of the channel's own, and so none for its wishes."""
        self._template, self._own = {}, False
        self.refused = (*self.refused, f"{shared_place.PATH} is not obeyed: {why}")

    def _build(
        self,
        target: str,
        name: str,
        served: ServedConsumer | None = None,
        *,
        plain: bool,
        shared: bool,
        labels: dict[str, str],
    ) -> Function:
        # Tokens come with the operator's leases.
        pulls = served is not None and plain and not served.subscriber.audiences
        variables = [("FORWARD_CONSUMERS", f"{self._stream}/{served.durable}")] if served and pulls else []
        access = self._access
        if target == "receive":
            variables += self._addresses(plain=plain)
            if plain:
                access = access.with_certificate(encryption.secret_name(name))
                variables.append(("RECEIVE_TLS_PORT", str(TLS_PORT)))
            else:
                # Nobody but its own queue-proxy speaks to it from there.
                variables.append(("RECEIVE_TLS_PROXIES", "127.0.0.1,::1"))
        if target != "receive" and self._access.digests is not None:
            variables.append(("HEADRACE_CALLER_DIGEST", self._access.digests(self._host(name))))
        if target != RECONCILE:
            variables.append(("HEADRACE_SECURITY_PLACE", self.namespace))
        if target != RECONCILE and self._access.delivery_keys is not None:
            variables.append(("HEADRACE_DELIVERY_KEY", self._access.delivery_keys(self.namespace)))
        return Function(
            target=target,
            name=name,
            namespace=self.namespace,
            settings=self._settings,
            access=access,
            shared=shared,
            variables=tuple(variables),
            labels=labels,
            annotations={} if shared else self._notes(served),
            template={} if shared else self._template,
        )

    def reconcile(self) -> Function:
        """The `reconcile` of functions that are apart."""
        return self.function(RECONCILE, plain=True)

    def url(self, function: Function, scheme: str = "http") -> str:
        return f"{scheme}://{self._host(function.name)}"

    def _host(self, name: str) -> str:
        return f"{name}.{self.namespace}.svc.{self._settings.domain}"

    def _addresses(self, *, plain: bool) -> list[tuple[str, str]]:
        """What `receive` has to know of its addresses, where that is not its default."""
        domain = self._settings.domain
        by_path = [] if plain else [("RECEIVE_HOST_ADDRESSES", "false")]
        return by_path + ([("HEADRACE_CLUSTER_DOMAIN", domain)] if domain != "cluster.local" else [])

    def _notes(self, served: ServedConsumer | None) -> dict[str, str]:
        """The owner of a function, for people; too long for labels."""
        metadata = self._channel.metadata
        notes = {CHANNEL_ANNOTATION: f"{metadata.namespace}/{metadata.name}"}
        return {**notes, SUBSCRIPTION_ANNOTATION: served.subscriber.full_name} if served else notes

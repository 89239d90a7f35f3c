"""The whole operator: the order in which its parts start and stop."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from headrace.core import caller_token
from headrace.core.delivery.lease import Lease, LeaseAnswer
from headrace.core.errors import HeadraceError, Refused, Unavailable
from headrace.core.installation.function_settings import ForwardSettings, TokenSettings
from headrace.core.installation.nats_settings import NatsSettings
from headrace.core.installation.operator_settings import KubeSettings, OperatorSettings
from headrace.core.quoting import quoted
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.nats.client import Client
from headrace.io.process import environment, log
from headrace.io.process.nats_config import mounted
from headrace.io.process.trouble import Trouble
from headrace.io.web import Token
from headrace_operator import metrics, probes
from headrace_operator.channels import predecessor
from headrace_operator.channels.arrivals import Arrivals
from headrace_operator.channels.channel_work import ChannelWork
from headrace_operator.channels.children import Children
from headrace_operator.channels.cluster_world import ClusterWorld, Customize
from headrace_operator.channels.edit_watch import EditWatch
from headrace_operator.channels.event_types import EventTypes, Places
from headrace_operator.channels.hook_client import HookClient
from headrace_operator.channels.hook_workload import HookWorkload, place
from headrace_operator.channels.kube_events import EventWriter
from headrace_operator.channels.leadership import Leadership
from headrace_operator.channels.one_channel import OneChannel
from headrace_operator.channels.predecessor import Predecessor
from headrace_operator.channels.related_objects import RelatedObjects
from headrace_operator.channels.security_writer import SecurityWriter
from headrace_operator.kube import access
from headrace_operator.kube.access import KubeAccess
from headrace_operator.kube.api import KubeApi
from headrace_operator.kube.election import Election
from headrace_operator.kube.kinds import CHANNEL, SERVICE_ACCOUNT, Discovery, is_name
from headrace_operator.kube.live_access import LiveAccess
from headrace_operator.kube.watch import Cache, Watch
from headrace_operator.metrics import Families
from headrace_operator.scaling.channel_scaler import ChannelScaler
from headrace_operator.scaling.lease_client import LeaseClient, Meanwhile
from headrace_operator.scaling.storage import Storage
from headrace_operator.scaling.tokens import TokenBook, TokenKey, request_body

# How often the API server is asked which APIs it serves: one request for all of them.
DISCOVERY_SECONDS = 60.0
FIRST_DISCOVERY_PAUSE = 0.5

_log = log.get("operator")


def configured() -> Operator:
    """The operator as this process's environment configures it; raises Misconfigured before anything is started."""
    settings = environment.fill(OperatorSettings)
    log.configure(settings.log_level, plain=settings.log_format == "plain")
    environment.fill(ForwardSettings)
    environment.fill(TokenSettings)
    kube, nats = environment.fill(KubeSettings), environment.fill(NatsSettings)
    return Operator(settings, LiveAccess(lambda: access.find(kube)).now, nats, Token.configured())


@dataclass(frozen=True, slots=True)
class MetricSources:
    """The parts whose numbers the metrics show."""

    api: KubeApi
    hook: HookClient
    client: Client
    channels: Cache
    events: EventWriter
    work: ChannelWork
    election: Election
    types: EventTypes

    def storage(self) -> Storage:
        """The reader of the streams' contents; in an operator that does not lead it reads nothing."""
        return Storage(
            JetStreamApi(self.client),
            lambda: self.work.served.streams if self.election.leads else (),
            lambda: self.work.served.scaler.stats()["consumers"],
            ask=asyncio.get_running_loop().call_soon_threadsafe,
        )

    def families(self, storage: Storage) -> tuple[Families, ...]:
        return (
            lambda: metrics.of_operator(self._numbers(), dict(self.api.calls), dict(self.types.counts)),
            lambda: metrics.of_storage(storage),
            lambda: metrics.of_connections(self.hook.calls, connected=self.client.connected),
        )

    def _numbers(self) -> Mapping[str, float]:
        queue = self.work.queue
        return {
            "leads": float(self.election.leads),
            "channels": float(len(self.channels)),
            "queue_depth": float(queue.depth),
            "queue_busy": float(queue.busy),
            "channels_failing": float(queue.failing),
            "events_waiting": float(self.events.waiting),
        }


async def _token(api: KubeApi, key: TokenKey) -> tuple[str, float]:
    if not is_name(key.account):
        raise Refused(f"{quoted(key.account)} can't be the name of a ServiceAccount", status=422)
    return await api.token(SERVICE_ACCOUNT.path(key.namespace, key.account, "token"), request_body(key.audience))


class Operator:
    def __init__(
        self, settings: OperatorSettings, way: Callable[[], KubeAccess], nats: NatsSettings, token: Token
    ) -> None:
        self._settings = settings
        self._access = way
        self._nats = nats
        self._token = token
        self._identity = settings.identity or f"{socket.gethostname()}-{secrets.token_hex(4)}"
        self._tasks: asyncio.TaskGroup | None = None
        self._trouble = Trouble()

    async def run(self) -> None:
        """Serve until cancelled; then the Lease and all connections are given back."""
        settings = self._settings
        async with AsyncExitStack() as stack:
            api = await stack.enter_async_context(KubeApi(self._access))
            hook = await stack.enter_async_context(HookClient(self._shared_token))
            leases = await stack.enter_async_context(LeaseClient(self._token_at))
            client = Client(self._nats, name="headrace-operator")
            stack.push_async_callback(client.close)
            discovery = Discovery(api)
            namespace = settings.namespace or ""
            channels = Watch(api, CHANNEL, namespace=namespace)
            children = Children(api, discovery, channels.cache, self._spawn, namespace)
            related = RelatedObjects(api, discovery, self._spawn, namespace)
            events = EventWriter(api, self._identity)
            customize = partial(hook.customize, settings.hook)
            world = ClusterWorld(api, discovery, channels.cache, children, related, events, customize)
            served = self._served(client, leases, TokenBook(partial(_token, api)))
            world.without_tokens = served.without_tokens
            passes = OneChannel(world, partial(hook.call, settings.hook))
            resync = settings.resync.total_seconds()
            # When the passes of one namespace hang, half of the workers remain for other namespaces, if there are any.
            share = settings.workers if namespace else max(1, settings.workers // 2)
            work = ChannelWork(world, passes, served, workers=settings.workers, share=share, resync=resync)
            leadership = Leadership(world, work, resync=resync)
            passes.succession.listeners.append(leadership.ask_again)
            workload = self._workload(api, discovery, leadership)
            security = SecurityWriter(api, client, channels.cache, self._place_key)
            passes.on_answer.append(security.hear)
            types = self._types(world, events, security)
            lease = (settings.lease_namespace or self._access().namespace, settings.lease_name)
            election = Election(api, lease, self._identity, settings.lease_duration.total_seconds())

            parts = MetricSources(api, hook, client, channels.cache, events, work, election, types)
            storage = parts.storage()
            told, where = (served.scaler.rows, parts.families(storage)), (settings.host, settings.port)
            port = await stack.enter_async_context(
                probes.served(*where, *told, option="PORT", ready=lambda: channels.cache.listed)
            )
            _log.info("operator", identity=self._identity, api_server=self._access().url, port=port)
            # Events are flushed after everything else has ended and the Lease is given back: nobody waits for them.
            stack.push_async_callback(events.flush)
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                tasks.create_task(channels.run(), name="watch-channels")
                tasks.create_task(events.run(), name="events")
                tasks.create_task(security.watch(), name="watch-security")
                tasks.create_task(storage.run(), name="storage")
                for name, read in self._followed().items():
                    tasks.create_task(EditWatch(read, work.add_all).run(), name=name)
                tasks.create_task(Arrivals(api, served.arrived, namespace).run(), name="arrivals")
                await self._discovered(discovery)
                tasks.create_task(self._discover_for_ever(discovery, world, leadership, workload), name="discovery")
                tasks.create_task(self._superseded(api, discovery, customize, lease[0]).run(), name="superseded")
                workload.watch_what_is_served()
                await children.watch_what_is_served()
                await election.run(partial(_together, leadership.run, security.run, partial(types.run, client)))

    def _types(self, world: ClusterWorld, events: EventWriter, security: SecurityWriter) -> EventTypes:
        """The maker of EventTypes; it works while Knative's flag asks for them."""
        places = Places(self._place_key, lambda: world.children.system_namespace)
        where, most = self._settings.namespace or "", self._settings.event_types
        seen = world.api, world.discovery, world.channels, events, places
        types = EventTypes(*seen, namespace=where, most=most)
        security.on_flags.append(lambda flags: types.ask_for(flags.auto_create_types))
        return types

    def _served(self, client: Client, leases: LeaseClient, tokens: TokenBook) -> ChannelScaler:
        forward = self._settings.forward

        async def open_lease(url: str, lease: Lease, meanwhile: Meanwhile) -> LeaseAnswer:
            if not (url or forward):
                raise Unavailable(
                    f"no forward is known for {lease.stream}/{lease.consumer}: reconcile has named none yet, "
                    "and FORWARD_URL is not set"
                )
            return await leases.open(url or str(forward), lease, meanwhile)

        max_in_flight, sweep = environment.fill(ForwardSettings).max_in_flight, self._settings.sweep
        return ChannelScaler(
            client, open_lease, max_in_flight=max_in_flight, sweep_seconds=sweep.total_seconds(), tokens=tokens
        )

    def _superseded(self, api: KubeApi, discovery: Discovery, customize: Customize, namespace: str) -> Predecessor:
        # No such channel exists: the answer follows from its name alone.
        nobody = {"metadata": {"namespace": namespace, "name": "nobody"}}
        named = tuple(predecessor.named(self._settings.superseded))
        return Predecessor(api, discovery, namespace, named, lambda: customize(nobody))

    async def _discovered(self, discovery: Discovery) -> None:
        while True:
            try:
                await discovery.refresh()
                self._trouble.over()
                return
            except (Unavailable, Refused) as error:
                self._complain(error)
                await asyncio.sleep(FIRST_DISCOVERY_PAUSE)

    async def _discover_for_ever(
        self, discovery: Discovery, world: ClusterWorld, leadership: Leadership, workload: HookWorkload
    ) -> None:
        while True:
            await asyncio.sleep(DISCOVERY_SECONDS)
            try:
                changed = await discovery.refresh() or await world.related.appeared()
            except (Unavailable, Refused) as error:
                self._complain(error)
                continue
            self._trouble.over()
            if changed:
                _log.info("the cluster serves other APIs than before", optional=world.children.apis)
                workload.watch_what_is_served()
                await world.children.watch_what_is_served()
                leadership.ask_again()

    def _complain(self, error: HeadraceError) -> None:
        write = _log.warning if self._trouble.note(str(error)) else _log.debug
        write("the API server does not say what it serves, trying again", error=str(error))

    def _workload(self, api: KubeApi, discovery: Discovery, leadership: Leadership) -> HookWorkload:
        """The workload of `reconcile`, if we can know it and may see it."""
        where = place(self._settings.hook, self._settings.hook_workload)
        seen = where is not None and self._settings.namespace in (None, "", where[0])
        return HookWorkload(api, discovery, where if seen else None, leadership.ask_again, self._spawn)

    def _followed(self) -> Mapping[str, Callable[[], object]]:
        """Readers of the files that `reconcile` reads beside the channels, by a name."""
        found: dict[str, Callable[[], object]] = {"token": self._shared_token}
        if config := self._nats.config_dir:
            found["config-maps"] = lambda: mounted(config)
        return found

    def _place_key(self, place: str) -> bytes:
        return bytes.fromhex(caller_token.delivery_key(self._token.load(), place))

    def _shared_token(self) -> str:
        return self._token.load().decode()

    def _token_at(self, url: str) -> str:
        """The token for a URL: only the deployer's `forward` gets the shared one; others may run in any namespace."""
        if url == self._settings.forward:
            return self._shared_token()
        return caller_token.bearer_for(self._token.load(), url)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        assert self._tasks is not None, "watches are begun by run() and what it calls"
        return self._tasks.create_task(work)


async def _together(*parts: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run all of them until cancelled, or until one fails."""
    async with asyncio.TaskGroup() as tasks:
        for part in parts:
            tasks.create_task(part())

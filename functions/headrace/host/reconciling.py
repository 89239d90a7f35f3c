"""`reconcile` wired to the world: Metacontroller's hooks over HTTP, and its NATS for another `reconcile`."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from headrace.core import caller_token
from headrace.core import metric_families as families
from headrace.core.channel.hook import Installation
from headrace.core.errors import Misconfigured
from headrace.core.http import Request, Response, json_response, problem
from headrace.core.installation import channel_defaults, config_choice, tenants
from headrace.core.installation.channel_defaults import Defaults
from headrace.core.installation.nats_settings import NatsSettings
from headrace.core.installation.reconcile_settings import ReconcileSettings
from headrace.core.installation.secret_names import SecretNames
from headrace.core.installation.tenants import Tenants
from headrace.core.metrics import LONG_BOUNDS, Distribution, Labels, Snapshot, Timings
from headrace.core.nats import own_account as lent
from headrace.core.quoting import quoted
from headrace.host.counts import Watched
from headrace.host.own_account import lend
from headrace.io import web
from headrace.io.jetstream.admin import Admin
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.jetstream.data_path import JetStream
from headrace.io.nats.client import Client
from headrace.io.process import clock, environment, log
from headrace.io.process.calculation import undertaking
from headrace.io.process.mount import LastGood, texts
from headrace.io.process.secret_names import SecretNamesReader
from headrace.io.process.security import Security
from headrace.reconcile import VERBS, Around, reconcile

if TYPE_CHECKING:
    from headrace.io.jetstream.own_account import Calls, RemoteAdmin

# A channel with thousands of subscribers and their CA certificates still fits. `headrace.core.channel.hook` bounds the
# number of values, which decides about memory.
LONGEST_BODY = 32 * 1024 * 1024
# One stream or consumer; NATS takes no larger one either.
LONGEST_CALL = 2 * 1024 * 1024
# A ConfigMap has a megabyte at most.
LONGEST_DEFAULTS = 1024 * 1024

Value = TypeVar("Value")
_log = log.get("reconcile")


class Reconciling:
    """The handler of `reconcile`."""

    @classmethod
    def configured(cls) -> Callable[[Client, JetStreamApi, Security], Reconciling]:
        """Read the settings now, so that a wrong one ends the process before it serves."""
        settings, nats = environment.fill(ReconcileSettings), environment.fill(NatsSettings)
        if settings.functions_nats_url is None:
            settings = settings.model_copy(update={"functions_nats_url": nats.url})
        digest = hashlib.sha256(settings.model_dump_json().encode()).hexdigest()[:16]
        return partial(
            cls, settings, web.Token.configured(), SecretNamesReader(nats), Installation(digest, round(clock.wall(), 3))
        )

    def __init__(
        self,
        settings: ReconcileSettings,
        token: web.Token,
        named: SecretNamesReader,
        installation: Installation,
        client: Client,
        api: JetStreamApi,
        _: Security,
    ) -> None:
        self._settings = settings
        self._token = token
        self._named = named
        self._installation = installation
        self._calls: Calls | None = None
        self._client = client
        self._admin = Admin(api, JetStream(client, api))
        self._timings: dict[Labels, Timings] = {}
        mounted = settings.defaults_dir
        self._defaults = LastGood(_reader(mounted, config_choice.DEFAULTS_KEY, _read_defaults))
        self._tenants = LastGood(_reader(mounted, tenants.KEY, tenants.parse))

    async def handle(self, request: Request, receive: web.Receive, send: web.Send) -> None:
        watched, began = Watched(send), clock.monotonic()
        await web.answer(self._reconcile(request, receive), watched)
        verb = request.path.strip("/")
        if verb in VERBS:
            timings = self._timings.setdefault((verb, str(watched.status)), Timings(LONG_BOUNDS))
            timings.took(clock.monotonic() - began)

    def drain(self) -> None:
        """Nothing to do: every hook is idempotent and is called again."""

    async def close(self) -> None:
        if self._calls is not None:
            await self._calls.close()

    def snapshot(self) -> Snapshot:
        took = {labels: Distribution.of(timings) for labels, timings in self._timings.items()}
        return {families.RECONCILE_SECONDS.name: took}

    async def _reconcile(self, request: Request, receive: web.Receive) -> Response:
        verb = request.path.strip("/")
        if verb not in (*VERBS, lent.PATH.strip("/")):
            return problem(
                404, "No such hook", f"{quoted(request.path)} is none of {', '.join('/' + v for v in VERBS)}"
            )
        if request.method != "POST":
            return problem(405, "Method not allowed", "call hooks with POST", headers=((b"allow", b"POST"),))
        refusal = await self._token.refusal(request)
        if refusal is not None:
            return refusal
        body = await web.read_body(receive, request, LONGEST_BODY if verb in VERBS else LONGEST_CALL)
        if verb not in VERBS:
            return await lend(body, self._admin, self._named_now)
        # Only an answer with functions needs the token.
        token = await asyncio.to_thread(self._token.load) if self._settings.image else None
        things = len(body) // 1024
        async with undertaking(things) as undertaken:
            around = Around(
                self._defaults_now() if self._settings.defaults_dir else None,
                self._tenants_now(),
                self._named_now(),
                digests=None if token is None else caller_token.digests(token),
                delivery_keys=None if token is None else caller_token.delivery_keys(token),
                elsewhere=self._elsewhere,
                installation=self._installation,
                calculate=undertaken.calculate,
            )
            asked = reconcile(verb, body, api=self._admin, settings=self._settings, now=clock.now(), around=around)
            return await undertaken.calculate(things, json_response, 200, await asked)

    def _elsewhere(self, url: str) -> RemoteAdmin:
        # Imported on demand: it brings aiohttp.
        from headrace.io.jetstream.own_account import Calls, RemoteAdmin

        if self._calls is None:
            self._calls = Calls(lambda at: caller_token.bearer_for(self._token.load(), at))
        return RemoteAdmin(self._calls, url)

    def _named_now(self) -> SecretNames:
        return self._named.now(self._client.settings_problem)

    def _defaults_now(self) -> Defaults:
        """The mounted defaults; while they are broken the last good ones, or none, and the channels' status says so."""
        try:
            reading = self._defaults.now()
        except Misconfigured as error:
            return channel_defaults.kept(Defaults(), str(error))
        return channel_defaults.kept(reading.value, reading.problem) if reading.problem else reading.value

    def _tenants_now(self) -> Tenants:
        """The mounted list; while it is broken the last good one, or an empty one, and the channels' status says so."""
        try:
            reading = self._tenants.now()
        except Misconfigured as error:
            return Tenants(problem=str(error))
        return replace(reading.value, problem=reading.problem)


def _reader(directory: str | None, key: str, read: Callable[[Mapping[str, str]], Value]) -> Callable[[], Value]:
    """Read one key of the mounted ConfigMap; its text is parsed only where it differs from the one before."""
    known: list[tuple[str, Value]] = []

    def now() -> Value:
        files = texts(directory, (key,), longest=LONGEST_DEFAULTS) if directory else {}
        text = files.get(key, "")
        if not known or known[0][0] != text:
            known[:] = [(text, read(files))]
        return known[0][1]

    return now


def _read_defaults(files: Mapping[str, str]) -> Defaults:
    found = channel_defaults.parse(files)
    for remark in found.remarks:
        _log.warning("not all of the ConfigMap is obeyed", why=remark)
    return found

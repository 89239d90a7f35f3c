"""A stand-in for Knative's Subscription controller and the list that it writes, with the races that were measured.

Two workers write the whole of `spec.subscribers` from a cache that is behind, without a resourceVersion. So live
entries vanish, entries fall back to their former generation, and those of deleted Subscriptions come back for good. A
changed Trigger is a Subscription that is deleted and made again under its name with a new uid. The cache of the program
that asks `reconcile` is behind, too, for a second at most, and never goes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

from headrace.core.channel import binding, consumer, stream_config
from headrace.core.channel.binding import Binding
from headrace.core.channel.leaving import Leaver, LeavingTerms
from headrace.core.channel.truth import Subscription, Truth
from headrace.core.delivery.subscriber import Subscriber, SubscriberState, from_metadata
from headrace.core.manifest import manifest
from headrace.core.manifest.consumer_spec import ConsumerTemplate
from headrace.core.manifest.manifest import Metadata
from headrace.core.nats.action import CreateConsumer, DeleteConsumer, UpdateConsumer
from headrace.core.raw_config import Config
from tests.support.functions.channels import channel, entry

STREAM = "KN_SHOP__ORDERS"
PLACE = stream_config.place(Metadata(name="orders", namespace="shop"), "", "default")
GRACE = timedelta(seconds=60)
NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)

Entries = Mapping[str, dict[str, Any]]


def subscription(uid: str, name: str = "billing", generation: int = 1, namespace: str = "shop", **more: Any) -> Any:
    """A Subscription of the channel shop/orders, as `headrace.core.channel.truth` has it."""
    return Subscription(uid, namespace, name, generation, **{"channel": ("shop", "orders"), **more})


def entry_of(one: Subscription) -> dict[str, Any]:
    """The entry that Knative writes for it; each generation has an address of its own."""
    return entry(one.uid, one.name, one.generation, subscriberUri=f"http://{one.name}/{one.generation}")


@dataclass(slots=True)
class Server:
    """The consumers of a stream. `births` tells one that was kept from one that was made anew."""

    consumers: dict[str, Config] = field(default_factory=dict)
    births: dict[str, int] = field(default_factory=dict)
    born: int = 0

    def carry_out(self, bindings: tuple[Binding, ...], leavers: tuple[Leaver, ...]) -> list[str]:
        """Do all that was decided; the names of what was deleted."""
        deleted = []
        for action in chain.from_iterable([*(one.actions for one in leavers), *(one.actions for one in bindings)]):
            match action:
                case CreateConsumer(_, config):
                    assert config["name"] not in self.consumers, "a consumer is created that exists"
                    self.consumers[config["name"]] = config
                    self.born += 1
                    self.births[config["name"]] = self.born
                case UpdateConsumer(_, config):
                    assert config["name"] in self.consumers, "a consumer is updated that does not exist"
                    self.consumers[config["name"]] = config
                case DeleteConsumer(_, name):
                    del self.consumers[name]
                    deleted.append(name)
        return deleted

    def serving(self) -> dict[str, Subscriber]:
        """Whom each consumer serves, by its name."""
        found = {name: from_metadata(config["metadata"]) for name, config in self.consumers.items()}
        return {name: one for name, one in found.items() if one is not None}

    def ready(self) -> dict[str, str]:
        """Names of consumers that are delivered from, by the uid of their Subscription."""
        ready = [(one.uid, name) for name, one in self.serving().items() if one.state is SubscriberState.READY]
        assert len(ready) == len(dict(ready)), "a Subscription is delivered to by two consumers"
        return dict(ready)


@dataclass(slots=True)
class World:
    """Subscriptions, the list, and us.

    Attributes:
        live: Subscriptions as the API server has them, by name.
        seen: as the cache of the operator has them; a step behind until `catch_up`.
        history: all lists that were ever written, the newest last.
        bound: the birth of the consumer that a Subscription of this name was first bound to.
    """

    live: dict[str, Subscription] = field(default_factory=dict)
    seen: dict[str, Subscription] = field(default_factory=dict)
    history: list[Entries] = field(default_factory=lambda: [{}])
    server: Server = field(default_factory=Server)
    now: datetime = NOON
    made: int = 0
    bound: dict[str, int] = field(default_factory=dict)

    def create(self, name: str) -> None:
        """Make a Subscription; one that exists is left alone."""
        if name not in self.live:
            self.made += 1
            self.live[name] = subscription(f"uid-{self.made}", name)

    def change(self, name: str) -> None:
        """Change its spec."""
        if name in self.live:
            self.live[name] = replace(self.live[name], generation=self.live[name].generation + 1)

    def delete(self, name: str) -> None:
        """Delete it; its entry stays until a worker writes."""
        self.live.pop(name, None)

    def replace(self, name: str) -> None:
        """What Knative does with a Trigger's when it changes."""
        if name in self.live:
            self.delete(name)
            self.create(name)

    def write(self, name: str, behind: int) -> None:
        """A worker writes the list for one Subscription, from a list that is so many writes old."""
        entries = dict(self.history[max(0, len(self.history) - 1 - behind)])
        known = self.live.get(name)
        stale = [uid for uid, one in entries.items() if one["name"] == name and (not known or uid != known.uid)]
        for uid in stale:
            del entries[uid]
        if known is not None:
            entries[known.uid] = entry_of(known)
        self.history.append(entries)

    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.now += timedelta(seconds=seconds)
        if seconds > 1:
            self.catch_up()

    def catch_up(self) -> None:
        """The cache of the operator is as the API server is now."""
        self.seen = dict(self.live)

    def sync(self) -> tuple[tuple[Binding, ...], tuple[Leaver, ...]]:
        """What the operator does when something has changed: ask, look up what is to be verified, ask again, prune."""
        bindings, leavers = self._ask(frozenset())
        questions = [*(one.question for one in bindings), *(one.question for one in leavers)]
        asked = [one for one in questions if one is not None]
        living = {(one.namespace, one.name): one.uid for one in self.live.values()}
        absent = frozenset(one.uid for one in asked if living.get((one.namespace, one.name)) != one.uid)
        if absent:
            bindings, leavers = self._ask(absent)
        leftovers = {one.uid for one in bindings if one.prune}
        assert not leftovers & {one.uid for one in self.live.values()}, "the entry of a live Subscription is taken out"
        if leftovers:
            self.history.append({uid: one for uid, one in self.history[-1].items() if uid not in leftovers})
        return bindings, leavers

    def settle(self) -> None:
        """Knative mends its list in the end, but for what it has forgotten; the cache catches up."""
        self.catch_up()
        for name in self.live:
            self.write(name, 0)
        for _ in range(3):
            self.sync()

    def _ask(self, absent: frozenset[str]) -> tuple[tuple[Binding, ...], tuple[Leaver, ...]]:
        truth = Truth({one.uid: one for one in self.seen.values()}, complete=True, absent=absent)
        rows = consumer.rows(manifest.parse(channel(*self.history[-1].values())), STREAM, truth)
        terms = LeavingTerms(PLACE, ConsumerTemplate(), (), GRACE, self.now, truth)
        bindings, leavers = binding.consumers(rows, self.server.consumers.values(), terms)
        before = self.server.serving()
        for name in self.server.carry_out(bindings, leavers):
            self._check_deleted(before[name])
        self._check()
        return bindings, leavers

    def _check_deleted(self, served: Subscriber) -> None:
        assert served.uid not in {one.uid for one in self.live.values()}, "a live Subscription has lost its consumer"
        assert served.gone_since is not None
        assert datetime.fromisoformat(served.gone_since) + GRACE <= self.now, "the grace was not kept"
        assert served.name not in self.seen, "a consumer went though its Subscription was made again"
        # It went by right: the next of this name begins anew.
        self.bound.pop(served.name, None)

    def _check(self) -> None:
        seen = {one.uid: one for one in self.seen.values()}
        for uid, durable in self.server.ready().items():
            assert uid in seen, "a Subscription that is gone is delivered to"
            name = seen[uid].name
            assert self.bound.setdefault(name, self.server.births[durable]) == self.server.births[durable], (
                f"{name} has lost its position"
            )

"""How one Subscription's consumer becomes the Go channel's, and a channel's streams lose our marks.

Each step may be the last, and all may be done again. Until theirs stands, ours holds the position, and with it what a
stream of retention Interest keeps; so what of theirs is there before is made anew, unless somebody delivers from it.

    ours has their name       a second one of ours, KN_SUB_<UID>_pull, takes its place, as if it had been taken over
    ours has another name     theirs begins behind the last event that ours has settled; then ours goes
    the stream is a queue     ours goes, then theirs is made: the stream itself keeps what nobody has settled
"""

from __future__ import annotations

from typing import Any

from headrace.core import names
from headrace.core.channel.peer import TAKEN_KEY
from headrace.core.delivery.subscriber import Subscriber, SubscriberState
from headrace.core.errors import Refused, Unavailable
from headrace.core.nats.api_error import ApiError
from headrace.core.nats.stream import added_subject
from headrace_cli.access.session import Session
from headrace_cli.catalog.channels import CatalogChannel, forget_stages
from headrace_cli.catalog.subscriptions import CatalogSubscription
from headrace_cli.hand_back import peer_consumer as theirs

_UNIQUE_FOR_A_QUEUE = "workqueue"


class HandOver:
    """One channel on its way back.

    Args:
        pull: the channel's consumerType is Pull.
    """

    def __init__(self, session: Session, channel: CatalogChannel, *, pull: bool) -> None:
        self._session = session
        self._channel = channel
        self._stream = channel.stream
        self._pull = pull

    async def consumer(self, one: CatalogSubscription, spare: bool) -> None:
        """Give back the consumer of one Subscription.

        Args:
            spare: another consumer of ours serves the same Subscription; this one is left from an interrupted run.

        Raises:
            Refused: the Go channel's dispatcher delivers already, or the server refuses.
        """
        subscriber = one.subscriber
        assert subscriber is not None
        durable = names.durable(subscriber.uid)
        if subscriber.state is SubscriberState.GONE or spare:
            await self._delete(one.consumer)
        elif self._pull and one.consumer == durable:
            await self._unmark(one, subscriber)
        elif self._channel.info["config"].get("retention") == _UNIQUE_FOR_A_QUEUE:
            await self._delete(one.consumer)
            await self._make({**theirs.config(subscriber, one.config, pull=self._pull), "deliver_policy": "all"})
        elif one.consumer != durable:
            await self._replace(one.consumer, one.settled_to, subscriber, one)
        else:
            holder = f"{durable}_pull"
            await self._hold(holder, one)
            await self._delete(durable)
            await self._replace(holder, one.settled_to, subscriber, one)

    async def streams(self) -> bool:
        """Take our marks off the stream and delete an empty aside stream; says whether none is left."""
        info = await self._session.api.call(f"STREAM.INFO.{self._stream}")
        observed = info["config"]
        wanted = theirs.stream(observed)
        if wanted["metadata"].keys() != {key for key in observed.get("metadata") or {} if not key.startswith("_nats.")}:
            await self._session.api.call(f"STREAM.UPDATE.{self._stream}", wanted)
        aside = await self._session.admin.info(self._channel.aside_name, names.parked_subjects())
        if aside is None:
            return True
        if aside["state"].get("subjects") or added_subject(aside["config"]):
            return False
        await self._session.api.find(f"STREAM.DELETE.{self._channel.aside_name}")
        return True

    async def _unmark(self, one: CatalogSubscription, subscriber: Subscriber) -> None:
        """Keep a pull consumer with its position, and take off the parts of its configuration that only we use."""
        wanted = theirs.config(subscriber, one.config, pull=True)
        kept = {
            key: one.config[key]
            for key in ("deliver_policy", "opt_start_seq", "opt_start_time", "pause_until")
            if one.config.get(key)
        }
        await self._call(f"CONSUMER.CREATE.{self._stream}.{one.consumer}", {**wanted, **kept}, "update")
        await forget_stages(self._session.api, self._channel.aside_name, names.stage_subjects(one.consumer))

    async def _hold(self, holder: str, one: CatalogSubscription) -> None:
        """Let a second consumer of ours keep the position; one that an interrupted run has left may be behind it."""
        await self._delete(holder)
        metadata = {**one.config.get("metadata", {}), TAKEN_KEY: "peer"}
        config = {**one.config, **_at(one.settled_to + 1), "durable_name": holder, "name": holder}
        await self._make({**config, "metadata": {k: v for k, v in metadata.items() if not k.startswith("_nats.")}})

    async def _replace(self, ours: str, settled: int, subscriber: Subscriber, one: CatalogSubscription) -> None:
        wanted = theirs.config(subscriber, one.config, pull=self._pull)
        if one.info.get("paused"):
            wanted["pause_until"] = one.config["pause_until"]
        await self._clear(wanted["name"])
        await self._make_at(wanted, one, settled + 1)
        await self._delete(ours)

    async def _make_at(self, wanted: dict[str, Any], one: CatalogSubscription, sequence: int) -> None:
        """Begin as the template says, then move: a consumer with another beginning the Go controller never updates."""
        name = wanted["name"]
        await self._make({**wanted, **theirs.beginning(one.config)})
        try:
            await self._session.api.call(f"CONSUMER.RESET.{self._stream}.{name}", {"seq": sequence})
        except (ApiError, Unavailable):
            # The server is older than NATS 2.14, or the template lets consumers begin in one place only.
            await self._delete(name)
            await self._make({**wanted, **_at(sequence)})

    async def _clear(self, durable: str) -> None:
        info = await self._session.api.find(f"CONSUMER.INFO.{self._stream}.{durable}")
        if info is None:
            return
        if info.get("push_bound") or int(info.get("num_waiting") or 0):
            raise Refused(
                f"the Go channel's dispatcher delivers from {durable} already, and not from where ours has ended: "
                "stop it, and do this again",
                status=409,
            )
        await self._delete(durable)

    async def _make(self, config: dict[str, Any]) -> None:
        await self._call(f"CONSUMER.CREATE.{self._stream}.{config['name']}", config, "create")

    async def _call(self, subject: str, config: dict[str, Any], action: str) -> None:
        await self._session.api.call(subject, {"stream_name": self._stream, "config": config, "action": action})

    async def _delete(self, durable: str) -> None:
        await self._session.api.find(f"CONSUMER.DELETE.{self._stream}.{durable}")
        await forget_stages(self._session.api, self._channel.aside_name, names.stage_subjects(durable))


def _at(sequence: int) -> dict[str, Any]:
    return {"deliver_policy": "by_start_sequence", "opt_start_seq": sequence, "opt_start_time": None}

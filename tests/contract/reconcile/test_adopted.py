"""Streams that a channel is told to use: what their transforms move, and what they hold beside the channel's events."""

from __future__ import annotations

from typing import Any

from headrace.io.nats.client import Client
from tests.support.functions.channels import channel, entry
from tests.support.functions.functions import Function
from tests.support.functions.reconciling import Hook, condition
from tests.support.functions.shop import DURABLE
from tests.support.http.subscriber import Place, Subscriber
from tests.support.nats.streams import Channel, Lane, Nats, binary_event

pytest_plugins = ["tests.support.functions.served"]

SECOND = 1_000_000_000
TRANSFORM = {"subject_transform": {"src": ">", "dest": "v1.>"}}


def named(nats: Nats) -> Channel:
    """A channel, and the name of the stream that it is to use in place of its own."""
    return nats.name_channel()


def theirs(names: Channel) -> str:
    return f"{names.stream}_theirs"


def manifest(names: Channel, place: Place, *additional: str, **spec: Any) -> dict[str, Any]:
    stream = {"overrideName": theirs(names), "config": {"additionalSubjects": list(additional)}}
    subscriber = entry("aaaa-1", "billing", subscriberUri=place.uri)
    return channel(subscriber, name=names.name, namespace=names.namespace, stream=stream, **spec)


def legacy(names: Channel) -> str:
    return f"legacy.{names.name}"


async def take(nats: Nats, forward: Function, names: Channel) -> dict[str, Any]:
    """One lease on the channel's consumer there."""
    return await Lane(nats, forward, Adopted(names.namespace, names.name), DURABLE).lease()


class Adopted(Channel):
    """The same channel in a stream of another name."""

    @property
    def stream(self) -> str:
        return f"{super().stream}_theirs"


# --- what a transform moves ---


async def test_events_of_a_channel_are_delivered_from_where_the_streams_transform_puts_them(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber
) -> None:
    names, place, hook = named(nats), subscriber.place(), Hook(client)
    await nats.make_stream(theirs(names), f"{legacy(names)}.>", **TRANSFORM)
    parent = manifest(names, place, f"{legacy(names)}.*")

    answer = await hook.sync(parent)
    await nats.store(names.subject, b"{}", binary_event("one"))
    await nats.store(f"{legacy(names)}.two", b"{}", binary_event("two"))

    assert condition(answer, "Ready")["status"] == "True"
    consumer = await hook.consumer(theirs(names), DURABLE)
    assert consumer is not None
    assert consumer["filter_subjects"] == [f"v1.{names.subject}", f"v1.{legacy(names)}.*"]
    assert (await take(nats, forward, names))["delivered"] == 2
    assert sorted(place.ids) == ["one", "two"]
    await hook.sync(parent)
    assert hook.changes == []


async def test_a_transform_that_comes_later_is_followed(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber
) -> None:
    names, place, hook = named(nats), subscriber.place(), Hook(client)
    await nats.make_stream(theirs(names), legacy(names))
    await hook.sync(manifest(names, place))
    info = await nats.call(f"STREAM.INFO.{theirs(names)}")
    await nats.call(f"STREAM.UPDATE.{theirs(names)}", {**info["config"], **TRANSFORM})
    await hook.sync(manifest(names, place))
    await nats.store(names.subject, b"{}", binary_event("one"))

    assert (await take(nats, forward, names))["delivered"] == 1


async def test_a_stream_whose_transform_no_filter_can_follow_is_not_adopted(
    nats: Nats, client: Client, subscriber: Subscriber
) -> None:
    names, hook = named(nats), Hook(client)
    hashed = {"src": "*.*.*", "dest": "q.{{partition(3,2)}}.$1.$2.$3"}
    await nats.make_stream(theirs(names), legacy(names), subject_transform=hashed)

    answer = await hook.sync(manifest(names, subscriber.place()))

    ready = condition(answer, "StreamReady")
    assert (ready["status"], ready["reason"]) == ("False", "SubjectMovedAway")
    assert ready["message"] == (
        f"stream {theirs(names)} stores {names.subject} where no filter of a consumer can follow, by its "
        "subject_transform from '*.*.*' to 'q.{{partition(3,2)}}.$1.$2.$3': let the transform move whole tokens of all "
        "that it matches, or name another stream"
    )
    assert "address" not in answer["status"]
    assert hook.changes == []


# --- what lies there beside the channel's events ---


async def test_what_an_adopted_stream_holds_and_nobody_is_given_is_counted_with_the_field_that_would(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber
) -> None:
    names, place, hook = named(nats), subscriber.place(), Hook(client)
    await nats.make_stream(theirs(names), legacy(names))
    for id in ("1", "2", "3"):
        await nats.store(legacy(names), b"{}", binary_event(id))

    answer = await hook.sync(manifest(names, place))

    told = condition(answer, "EventsSeen")
    assert (told["status"], told["severity"], told["reason"]) == ("False", "Info", "OtherSubjects")
    assert told["message"].startswith(
        f"the stream holds 3 events on subjects that no subscriber is given: {legacy(names)} (3); "
        "name those that are to be delivered in spec.stream.config.additionalSubjects, by which new ones are; "
    )
    assert answer["resyncAfterSeconds"] == 0
    assert (await take(nats, forward, names))["delivered"] == 0

    # As it says.
    after = await hook.sync(manifest(names, place, legacy(names)))
    assert "EventsSeen" not in {one["type"] for one in after["status"]["conditions"]}
    await nats.store(legacy(names), b"{}", binary_event("4"))
    assert (await take(nats, forward, names))["delivered"] == 1
    assert place.ids == ["4"]


async def test_the_field_that_is_there_from_the_beginning_brings_what_the_stream_held_before(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber
) -> None:
    names, place = named(nats), subscriber.place()
    await nats.make_stream(theirs(names), legacy(names))
    await nats.store(legacy(names), b"{}", binary_event("1"))
    await Hook(client).sync(manifest(names, place, legacy(names)))

    assert (await take(nats, forward, names))["delivered"] == 1


async def test_a_stream_of_our_own_has_no_such_condition(nats: Nats, client: Client, subscriber: Subscriber) -> None:
    names, hook = named(nats), Hook(client)
    subscribers = entry("aaaa-1", "billing", subscriberUri=subscriber.place().uri)
    template = {"filterSubject": "something.else"}
    parent = channel(subscribers, name=names.name, namespace=names.namespace, consumerConfigTemplate=template)
    await hook.sync(parent)
    await nats.store(names.subject, b"{}", binary_event("1"))

    answer = await hook.sync(parent)

    assert "EventsSeen" not in {one["type"] for one in answer["status"]["conditions"]}


# --- the Go channel's, in a stream that the manifest names ---


async def test_a_take_over_goes_on_delivering_what_the_go_channel_delivered(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber
) -> None:
    for push in (True, False):
        names, place, hook = named(nats), subscriber.place(), Hook(client)
        await nats.make_stream(theirs(names), legacy(names), names.subject)
        config = {"durable_name": DURABLE, "name": DURABLE, "ack_policy": "explicit"}
        to = {"deliver_subject": f"{names.subject}_consumer.aaaa1", "deliver_group": DURABLE} if push else {}
        body = {"stream_name": theirs(names), "config": {**config, **to}}
        await nats.call(f"CONSUMER.CREATE.{theirs(names)}.{DURABLE}", body)
        for id in ("1", "2", "3"):
            await nats.store(legacy(names), b"{}", binary_event(id))
        await nats.store(names.subject, b"{}", binary_event("4"))

        answer = await hook.sync(manifest(names, place))
        durable = answer["status"]["consumers"][0]["durable"]

        consumer = await hook.consumer(theirs(names), durable)
        assert consumer is not None
        assert not {"filter_subject", "filter_subjects"} & consumer.keys()
        lane = Lane(nats, forward, Adopted(names.namespace, names.name), durable)
        assert (await lane.lease())["delivered"] == 4
        assert place.ids == ["1", "2", "3", "4"]
        assert "EventsSeen" not in {one["type"] for one in answer["status"]["conditions"]}
        await hook.sync(manifest(names, place))
        assert hook.changes == []


async def test_a_filter_that_the_go_channels_consumer_had_is_kept_until_the_author_names_another(
    nats: Nats, client: Client, subscriber: Subscriber
) -> None:
    names, hook = named(nats), Hook(client)
    await nats.make_stream(theirs(names), f"{legacy(names)}.>", names.subject)
    filtered = {"filter_subject": f"{legacy(names)}.a"}
    config = {"durable_name": DURABLE, "name": DURABLE, "ack_policy": "explicit", **filtered}
    body = {"stream_name": theirs(names), "config": config}
    await nats.call(f"CONSUMER.CREATE.{theirs(names)}.{DURABLE}", body)

    await hook.sync(manifest(names, subscriber.place()))
    kept = await hook.consumer(theirs(names), DURABLE)
    template = {"filterSubject": names.subject}
    await hook.sync(manifest(names, subscriber.place(), consumerConfigTemplate=template))
    named_anew = await hook.consumer(theirs(names), DURABLE)

    assert kept is not None
    assert named_anew is not None
    assert kept["filter_subject"] == f"{legacy(names)}.a"
    assert named_anew["filter_subject"] == names.subject

"""The deeds about a channel's streams, given the streams that are there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headrace.core.channel import plan, stream_config
from headrace.core.channel.plan import Observed, Problem, StreamsDone
from headrace.core.channel.stream_config import WantedStreams
from headrace.core.manifest import manifest
from headrace.core.nats.action import Action, CreateStream, DeleteStream, Done, PurgeSubjects, Rejected, UpdateStream
from headrace.core.raw_config import Config
from tests.support.functions.channels import channel, stream

STREAM, ASIDE = "KN_SHOP__ORDERS", "KN_SHOP__ORDERS_aside"


def wanted(**spec: Any) -> WantedStreams:
    return stream_config.wanted(manifest.parse(channel(**spec)), "default")


def planned(asked: WantedStreams, observed: Observed) -> tuple[Action, ...]:
    """The actions, where there is no conflict."""
    actions = plan.streams(asked, observed)
    assert isinstance(actions, tuple)
    return actions


def settled(asked: WantedStreams) -> Observed:
    """What the server has once everything was done, with a few keys of its own."""
    return Observed({**asked.config, "sealed": False}, {**asked.aside, "sealed": False})


def test_a_channel_with_nothing_gets_its_stream_and_then_its_aside() -> None:
    asked = wanted()

    assert planned(asked, Observed(None, None)) == (CreateStream(asked.config), CreateStream(asked.aside))


def test_a_channel_with_everything_as_wanted_gets_nothing() -> None:
    assert planned(wanted(), settled(wanted())) == ()


def test_a_lost_aside_stream_is_made_again() -> None:
    asked = wanted()

    assert planned(asked, replace(settled(asked), aside=None)) == (CreateStream(asked.aside),)


def test_a_stream_made_beside_an_old_aside_begins_without_its_stage_records() -> None:
    asked = wanted()

    assert planned(asked, replace(settled(asked), stream=None)) == (
        PurgeSubjects(ASIDE, "shop.orders._knative_aside.stage.>"),
        CreateStream(asked.config),
    )


def test_an_edit_is_sent_with_all_that_the_server_has() -> None:
    now = settled(wanted())

    actions = planned(wanted(stream=stream(maxBytes=5)), now)

    assert now.stream is not None
    assert actions == (UpdateStream({**now.stream, "max_bytes": 5}),)


def test_more_replicas_are_for_the_aside_too() -> None:
    actions = planned(wanted(stream=stream(replicas=3)), settled(wanted()))

    updates = [action.config for action in actions if isinstance(action, UpdateStream)]
    assert [(config["name"], config["num_replicas"]) for config in updates] == [(STREAM, 3), (ASIDE, 3)]


def test_a_mirror_that_is_no_more_wanted_is_asked_to_become_a_stream() -> None:
    before = settled(wanted(stream=stream(mirror={"name": "A"})))

    (update,) = planned(wanted(), before)

    assert isinstance(update, UpdateStream)
    assert (update.config["mirror"], update.config["subjects"]) == (None, ["shop.orders._knative"])


def test_the_go_channels_stream_is_marked_before_anything_else_is_changed() -> None:
    theirs = {"name": STREAM, "subjects": ["shop.orders._knative"], "max_bytes": 9, "storage": "file"}
    asked = wanted(stream=stream(maxBytes=5))

    mark, config, aside = planned(asked, Observed(theirs, None))

    marks = {**asked.config["metadata"], "headrace.dev/created": "peer"}
    assert mark == UpdateStream({**theirs, "metadata": marks})
    assert isinstance(config, UpdateStream)
    assert (config.config["max_bytes"], config.config["metadata"]) == (5, marks)
    assert aside == CreateStream(asked.aside)


def test_a_channel_made_again_gets_the_new_uid_written_to_both_streams() -> None:
    now = settled(wanted(uid="old"))

    actions = planned(wanted(uid="new"), now)

    uids = [a.config["metadata"]["headrace.dev/uid"] for a in actions if isinstance(a, UpdateStream)]
    assert uids == ["new", "new"]


@pytest.mark.parametrize(
    ("observed", "says"),
    [
        pytest.param(
            settled(stream_config.wanted(manifest.parse(channel()), "west")),
            f"stream {STREAM} exists and belongs to channel shop/orders of cluster west",
            id="another cluster's",
        ),
        pytest.param(
            Observed({"name": STREAM, "subjects": ["x"]}, None),
            f"stream {STREAM} exists and has no mark of Headrace and does not carry this channel's subject",
            id="nobody's",
        ),
        pytest.param(
            Observed(None, {"name": ASIDE, "subjects": ["x"]}),
            f"stream {ASIDE} exists and has no mark",
            id="an aside that is nobody's",
        ),
    ],
)
def test_what_is_not_ours_is_a_conflict_and_not_touched(observed: Observed, says: str) -> None:
    problem = plan.streams(wanted(), observed)

    assert isinstance(problem, Problem)
    assert problem.reason == "StreamNotOurs"
    assert problem.message.startswith(says)
    assert plan.removal(wanted().place, observed, retain=False, parked=0) == ()
    assert plan.may_remove(wanted().place, observed) is False


ADOPTED = {"name": "ORDERS", "subjects": ["legacy"], "num_replicas": 3, "max_msgs": 7, "theirs": 1}


def adopting(**config: Any) -> WantedStreams:
    return wanted(stream={"overrideName": "ORDERS", "config": {"maxMsgs": 5, **config}})


def test_adopting_makes_the_aside_first_and_remembers_the_subject_that_is_added() -> None:
    aside, update = planned(adopting(), Observed(ADOPTED, None))

    assert isinstance(aside, CreateStream)
    assert aside.config["name"] == "ORDERS_aside"
    assert aside.config["num_replicas"] == 3
    assert aside.config["metadata"]["headrace.dev/added-subject"] == "shop.orders._knative"
    assert update == UpdateStream({**ADOPTED, "subjects": ["legacy", "shop.orders._knative"]})


@pytest.mark.parametrize(
    "theirs",
    [
        pytest.param({**ADOPTED, "subjects": ["shop.>"]}, id="captures our subject already"),
        pytest.param({**ADOPTED, "subjects": None, "mirror": {"name": "A"}}, id="is a mirror, which takes no subjects"),
    ],
)
def test_an_adopted_stream_is_not_touched_when_it(theirs: Config) -> None:
    (aside,) = planned(adopting(), Observed(theirs, None))

    assert isinstance(aside, CreateStream)
    assert "headrace.dev/added-subject" not in aside.config["metadata"]


def test_an_adopted_stream_loses_the_subject_that_we_added_and_nothing_else() -> None:
    asked = adopting()
    added = {"headrace.dev/added-subject": "shop.orders._knative"}
    aside = {**asked.aside, "metadata": {**asked.aside["metadata"], **added}}
    theirs = {**ADOPTED, "subjects": ["legacy", "shop.orders._knative"]}

    assert plan.removal(asked.place, Observed(theirs, aside), retain=False, parked=0) == (
        UpdateStream({**ADOPTED, "subjects": ["legacy"]}),
        DeleteStream("ORDERS_aside"),
    )
    assert plan.removal(asked.place, Observed(theirs, asked.aside), retain=False, parked=0) == (
        DeleteStream("ORDERS_aside"),
    )
    only_ours = {**theirs, "subjects": ["shop.orders._knative"]}
    assert plan.removal(asked.place, Observed(only_ours, aside), retain=False, parked=0) == (
        DeleteStream("ORDERS_aside"),
    )


@pytest.mark.parametrize(
    ("stream_metadata", "uid", "retain", "parked", "deleted"),
    [
        pytest.param({}, "u", False, 0, [STREAM, ASIDE], id="all goes"),
        pytest.param({}, "u", False, 1, [STREAM], id="parked events keep the aside"),
        pytest.param({}, "u", True, 0, [], id="a retained channel keeps both"),
        pytest.param({"headrace.dev/created": "peer"}, "u", False, 0, [ASIDE], id="the Go channel's stream stays"),
        pytest.param({}, "older", False, 0, [], id="a channel that is no more takes nothing from the one that is"),
        pytest.param({}, "", False, 0, [STREAM, ASIDE], id="a channel without uid, on a laptop"),
    ],
)
def test_what_goes_with_the_channel(
    stream_metadata: dict[str, str], uid: str, retain: bool, parked: int, deleted: list[str]
) -> None:
    now = settled(wanted(uid="u"))
    assert now.stream is not None
    marked = {**now.stream, "metadata": {**now.stream["metadata"], **stream_metadata}}

    actions = plan.removal(wanted(uid=uid).place, replace(now, stream=marked), retain=retain, parked=parked)

    assert actions == tuple(DeleteStream(name) for name in deleted)


def test_removal_finds_nothing_wrong_with_what_is_gone() -> None:
    assert plan.removal(wanted().place, Observed(None, None), retain=False, parked=0) == ()


def test_only_consumers_of_an_adopted_stream_are_filtered() -> None:
    asked = adopting()

    assert plan.seen_subjects(asked.place, Observed(ADOPTED, None), ("legacy",)) == ("shop.orders._knative", "legacy")
    assert plan.seen_subjects(wanted().place, settled(wanted()), ("legacy",)) == ()


ASKED = wanted()
START = StreamsDone(ASKED.place, Observed(None, None))
REFUSED = Rejected("no space")


@pytest.mark.parametrize(
    ("action", "outcome", "reasons", "stopped"),
    [
        pytest.param(CreateStream(ASKED.config), Done(ASKED.config), [], False, id="done"),
        pytest.param(CreateStream(ASKED.config), REFUSED, ["StreamCreateRefused"], True, id="no stream: stop"),
        pytest.param(CreateStream(ASKED.aside), REFUSED, ["StreamCreateRefused"], True, id="no aside: stop"),
        pytest.param(UpdateStream(ASKED.config), REFUSED, ["StreamUpdateRefused"], False, id="the old one still works"),
        pytest.param(PurgeSubjects(ASIDE, "x"), REFUSED, ["StreamUpdateRefused"], True, id="old stage records: stop"),
        pytest.param(
            CreateStream(ASKED.config), Done({**ASKED.config, "metadata": None}), ["NatsTooOld"], True, id="2.9 forgets"
        ),
        pytest.param(
            UpdateStream({"name": "ORDERS", "metadata": {"_nats.ver": "2.11"}}),
            Done({"name": "ORDERS", "metadata": {"_nats.ver": "2.12"}}),
            [],
            False,
            id="what the server itself writes is its own affair",
        ),
    ],
)
def test_progress(action: Action, outcome: Done | Rejected, reasons: list[str], stopped: bool) -> None:
    progress = START.after(action, outcome)

    assert [problem.reason for problem in progress.problems] == reasons
    assert progress.stopped is stopped


def test_progress_knows_what_the_server_has_now() -> None:
    progress = START.after(CreateStream(ASKED.config), Done(ASKED.config))
    progress = progress.after(CreateStream(ASKED.aside), Done(ASKED.aside))

    assert progress.observed == Observed(ASKED.config, ASKED.aside)

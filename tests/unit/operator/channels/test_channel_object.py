"""A channel object: the operator reads it, and finds the patch that changes it."""

from __future__ import annotations

import pytest

from headrace_operator.channels import channel_object
from tests.support.functions.channels import channel, entry


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        pytest.param({"a": 1}, {"a": 1}, {}, id="nothing"),
        pytest.param({"a": 1, "b": 2}, {"a": 1}, {"b": None}, id="what is left out goes"),
        pytest.param({"x": {"a": 1, "b": 2}}, {"x": {"a": 1}}, {"x": {"b": None}}, id="also further in"),
        pytest.param({"l": [1, 2]}, {"l": [2]}, {"l": [2]}, id="a list is a value"),
        pytest.param({}, {"x": {"a": 1}}, {"x": {"a": 1}}, id="what is new"),
        pytest.param({"x": 1}, {"x": {"a": 1}}, {"x": {"a": 1}}, id="another type"),
    ],
)
def test_the_patch_of_a_status(before: dict[str, object], after: dict[str, object], patch: dict[str, object]) -> None:
    assert channel_object.difference(before, after) == patch


def test_entries_are_taken_out_by_uid() -> None:
    parent = channel(entry("1"), entry("2"), entry("3"))
    kept = channel_object.without(parent, ["2", "unknown"])
    assert kept is not None
    assert [one["uid"] for one in kept] == ["1", "3"]
    assert channel_object.without(parent, ["unknown"]) is None


def test_a_channel_mentions_the_subscriptions_it_has_and_had() -> None:
    status = {"subscribers": [{"uid": "2"}], "consumers": [{"uid": "3"}]}
    assert channel_object.mentioned(channel(entry("1"), status=status)) == {"1", "2", "3"}
    assert channel_object.mentioned({"metadata": {}}) == set()


def test_what_the_operator_writes_itself_is_no_change() -> None:
    old = channel(status={"a": 1})
    held = {**old, "metadata": {**old["metadata"], "finalizers": [channel_object.FINALIZER]}}
    assert channel_object.says_the_same(old, held)
    assert not channel_object.says_the_same(held, old), "somebody took the finalizer away"
    assert not channel_object.says_the_same(old, channel(generation=2))
    assert not channel_object.says_the_same(old, channel(annotations={"headrace.dev/runtime": "deployment"}))
    annotated = channel(annotations={"messaging.knative.dev/subscribable": "v1"})
    assert channel_object.says_the_same(old, annotated)
    assert not channel_object.says_the_same(annotated, old), "somebody took the annotation away"


def test_an_annotation_that_somebody_has_given_another_value_is_not_lacking() -> None:
    wanted = {"messaging.knative.dev/subscribable": "v1"}
    assert channel_object.lacking(channel(), wanted) == wanted
    assert channel_object.lacking(channel(annotations={"a": "b"}), wanted) == wanted
    assert channel_object.lacking(channel(annotations={"messaging.knative.dev/subscribable": ""}), wanted) == {}

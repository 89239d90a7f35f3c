"""A channel whose author has said nothing: the namespace's defaults, then the cluster's."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from headrace.core.channel import plan
from headrace.core.channel.desired import Desired, desired
from headrace.core.channel.plan import Observed
from headrace.core.errors import InvalidSpec, Misconfigured
from headrace.core.installation import channel_defaults
from headrace.core.installation.channel_defaults import KEY, Defaults, merged
from headrace.core.installation.reconcile_settings import ReconcileSettings
from headrace.core.nats.action import UpdateStream
from tests.support.functions.channels import channel, stream

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def defaults(**document: Any) -> Defaults:
    return channel_defaults.parse({KEY: yaml.safe_dump(document)})


def cluster(**spec: Any) -> Defaults:
    return defaults(clusterDefault={"spec": spec})


# The founding document's example, word for word.
PROPOSED = """
clusterDefault:
    configName: config-jetstream
namespaceDefaults:
    my-namespace:
        configName: custom-jetstream-config
"""


def test_the_proposals_example_names_the_config_map_of_a_namespace():
    found = channel_defaults.parse({KEY: PROPOSED})
    assert found.config_name("my-namespace") == "custom-jetstream-config"
    assert found.config_name("another") == "config-jetstream"
    assert found.remarks == ()


def test_without_the_key_there_are_no_defaults():
    assert channel_defaults.parse({}) == Defaults()


def test_the_manifest_wins_over_the_namespace_and_that_over_the_cluster_field_by_field():
    known = defaults(
        clusterDefault={"spec": {"delivery": {"retry": 1, "timeout": "PT5S"}, "stream": {"config": {"replicas": 3}}}},
        namespaceDefaults={"shop": {"spec": {"delivery": {"retry": 2, "backoffDelay": "PT1S"}}}},
    )

    found = merged(channel(delivery={"backoffDelay": "PT2S"}), known).parent["spec"]

    assert found["delivery"] == {"retry": 2, "timeout": "PT5S", "backoffDelay": "PT2S"}
    assert found["stream"] == {"config": {"replicas": 3}}


def test_the_defaults_of_other_namespaces_are_not_ours():
    known = defaults(namespaceDefaults={"other": {"spec": {"delivery": {"retry": 2}}}})
    assert "delivery" not in merged(channel(), known).parent["spec"]


def test_what_the_api_server_writes_for_the_unsaid_is_unsaid():
    parent = channel(stream=stream(storage="", retention=""))
    found = merged(parent, cluster(stream={"config": {"storage": "Memory"}}))
    assert found.parent["spec"]["stream"]["config"] == {"storage": "Memory", "retention": ""}
    assert {"storage", "retention"} <= found.unsaid


@pytest.mark.parametrize("zero", [0, False])
def test_zero_and_false_are_said(zero: object):
    parent = channel(stream=stream(maxMsgs=zero))
    assert (
        merged(parent, cluster(stream={"config": {"maxMsgs": 5}})).parent["spec"]["stream"]["config"]["maxMsgs"] is zero
    )


@pytest.mark.parametrize(
    ("own", "default", "found"),
    [
        pytest.param(
            {"delivery": {"deadLetterSink": {"ref": {"kind": "Service", "name": "own"}}}},
            {"delivery": {"deadLetterSink": {"uri": "http://default"}}},
            {"delivery": {"deadLetterSink": {"ref": {"kind": "Service", "name": "own"}}}},
            id="half a sink is no sink",
        ),
        pytest.param(
            {"consumerConfigTemplate": {"filterSubjects": ["a", "b"]}},
            {"consumerConfigTemplate": {"filterSubject": "c"}},
            {"consumerConfigTemplate": {"filterSubjects": ["a", "b"]}},
            id="one filter or the other",
        ),
        pytest.param(
            {"consumerConfigTemplate": {"deliverPolicy": "New"}},
            {"consumerConfigTemplate": {"deliverPolicy": "ByStartSequence", "optStartSeq": 5}},
            {"consumerConfigTemplate": {"deliverPolicy": "New"}},
            id="a policy and its start belong together",
        ),
        pytest.param(
            {"stream": {"config": {"mirror": {"name": "HUB"}}}},
            {"stream": {"config": {"additionalSubjects": ["a"], "maxMsgs": 5}}},
            {"stream": {"config": {"mirror": {"name": "HUB"}, "maxMsgs": 5}}},
            id="a mirror listens on nothing",
        ),
        pytest.param(
            {"deploymentSpecTemplate": {"labels": {"a": "own"}}},
            {"deploymentSpecTemplate": {"labels": {"a": "default", "b": "default"}}},
            {"deploymentSpecTemplate": {"labels": {"a": "own", "b": "default"}}},
            id="labels add up",
        ),
    ],
)
def test_what_belongs_together_stays_together(own: dict[str, Any], default: dict[str, Any], found: dict[str, Any]):
    spec = merged(channel(**own), cluster(**default)).parent["spec"]
    assert {name: spec[name] for name in found} == found
    assert isinstance(desired(merged(channel(**own), cluster(**default)).parent, ReconcileSettings()), Desired)


def test_the_status_says_which_defaults_apply():
    known = defaults(
        clusterDefault={"spec": {"delivery": {"retry": 1}, "stream": {"config": {"maxAge": "1h"}}}},
        namespaceDefaults={"shop": {"spec": {"delivery": {"retry": 2}}}},
    )
    status = merged(channel(), known).add_condition({"conditions": [{"type": "Ready", "status": "True"}]}, NOON)
    assert status["conditions"][0] == {
        "type": "DefaultsApplied",
        "status": "True",
        "message": "namespaceDefaults.shop: delivery.retry; clusterDefault: stream.config.maxAge",
        "lastTransitionTime": "2026-01-31T12:00:00Z",
    }
    assert status["conditions"][1]["type"] == "Ready"


def test_a_channel_that_says_all_for_itself_has_no_such_condition():
    known = cluster(delivery={"retry": 1})
    assert merged(channel(delivery={"retry": 3}), known).add_condition({"conditions": []}, NOON) == {"conditions": []}


def test_a_broken_edit_keeps_the_last_good_defaults_and_says_so():
    known = channel_defaults.kept(cluster(delivery={"retry": 1}), "ConfigMap x: nonsense")
    found = merged(channel(), known)
    assert found.parent["spec"]["delivery"] == {"retry": 1}
    status = found.add_condition({"conditions": []}, NOON)
    (told,) = status["conditions"]
    assert (told["status"], told["severity"], told["reason"]) == ("False", "Info", "DefaultsBroken")
    assert told["message"] == "ConfigMap x: nonsense; the last good ones apply: clusterDefault: delivery.retry"


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (
            {"clusterDefault": {"spec": {"delivery": {"retry": "many"}}}},
            "clusterDefault.spec.delivery.retry is 'many': it should be a whole number",
        ),
        (
            {"namespaceDefaults": {"shop": {"spec": {"stream": {"config": {"retention": "Limit"}}}}}},
            "namespaceDefaults.shop.spec.stream.config.retention is 'Limit': "
            "it should be 'Limits', 'Interest' or 'Work'",
        ),
        (
            {"clusterDefault": {"spec": {"stream": {"overrideName": "X"}}}},
            "clusterDefault.spec.stream.overrideName can't be a default, since it is one channel's own: take it out",
        ),
        ({"clusterDefault": "config-jetstream"}, "clusterDefault is 'config-jetstream': it should be an object"),
    ],
)
def test_what_is_wrong_is_told_with_config_map_key_field_and_value(document: dict[str, Any], says: str):
    with pytest.raises(Misconfigured) as wrong:
        defaults(**document)
    assert str(wrong.value) == f"ConfigMap config-ch-jetstream-defaults, key jetstream-dispatcher-config: {says}"


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"clusterDefaults": {}}, "clusterDefaults"),
        ({"clusterDefault": {"confgName": "x"}}, "clusterDefault.confgName"),
        ({"namespaceDefaults": {"shop": {"confgName": "x"}}}, "namespaceDefaults.shop.confgName"),
        ({"clusterDefault": {"spec": {"delivery": {"retries": 5}}}}, "clusterDefault.spec.delivery.retries"),
    ],
)
def test_a_slip_in_a_name_is_told(document: dict[str, Any], path: str):
    (remark,) = defaults(**document).remarks
    assert f": {path} is unknown and not obeyed" in remark


def test_a_default_that_does_not_go_with_the_manifest_is_blamed():
    found = merged(channel(stream=stream(maxAge="1h")), cluster(stream={"config": {"duplicateWindow": "2h"}}))
    error = desired(found.parent, ReconcileSettings())
    assert isinstance(error, InvalidSpec)
    assert str(found.blamed(error)).endswith("(clusterDefault of ConfigMap config-ch-jetstream-defaults)")


@pytest.mark.parametrize(
    ("default", "observed"),
    [
        ({"storage": "Memory"}, {"storage": "file"}),
        ({"retention": "Work"}, {"retention": "limits"}),
        ({"persistMode": "Async"}, {}),
        ({"firstSeq": 100}, {}),
    ],
)
def test_a_default_that_comes_too_late_breaks_no_stream(default: dict[str, Any], observed: dict[str, Any]):
    before = desired(channel(), ReconcileSettings())
    assert isinstance(before, Desired)
    existing = {**before.wanted.config, **observed}
    found = merged(channel(), cluster(stream={"config": default}))
    wish = desired(found.parent, ReconcileSettings())
    assert isinstance(wish, Desired)
    late = replace(wish.wanted, unsaid=found.unsaid)
    assert plan.streams(late, Observed(existing, before.wanted.aside)) == ()
    # Said by the author himself it is tried, and what the server says of it is his to read.
    assert any(
        isinstance(one, UpdateStream) for one in plan.streams(wish.wanted, Observed(existing, wish.wanted.aside))
    )


def test_a_default_that_can_be_changed_is_followed_by_old_streams_too():
    before = desired(channel(), ReconcileSettings())
    assert isinstance(before, Desired)
    found = merged(channel(), cluster(stream={"config": {"maxMsgs": 5}}))
    wish = desired(found.parent, ReconcileSettings())
    assert isinstance(wish, Desired)
    (update,) = plan.streams(wish.wanted, Observed(before.wanted.config, before.wanted.aside))  # type: ignore[misc]  # a Problem would be a failure of the test
    assert update.config["max_msgs"] == 5
